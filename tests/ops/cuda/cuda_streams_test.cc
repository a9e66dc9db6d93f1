// The order between a program's streams and the library's work on a GPU, which a stand-in is.
#include <catch2/catch.hpp>

#include "tests/ops/cuda/late_memory.h"

namespace rueda::test {
namespace {

/// An all-reduce whose copy back waits until `late.go` opens, because its output is still in use until then.
rueda_handle launch_only(rueda_session* session, const GpuMemory<float>& input, int64_t count, LateMemory& late) {
  const GpuTensor from(input.data(), count, 0);
  const GpuTensor to(nullptr, count, 0);
  rueda_op_options options = on_stream("late", late.stream);
  options.allocate = hand_out;
  options.allocate_context = &late;
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK, "enqueue");
  return handle;
}

TEST_CASE("a tensor is read after what its stream did before the enqueue") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const unsigned flags = rank == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    const GpuStream made(rank, flags);
    const GpuMemory<float> memory(std::vector<float>(100'000, -1.0f));
    for (int i = 0; i < 10; ++i) {
      gpu().launch(made.get(), [&memory, rank] {
        const std::vector<float> values = numbers(rank, 100'000);
        std::copy(values.begin(), values.end(), memory.kernels());
      });
      const rueda_handle handle = sum_on_gpu(session, memory, 100'000, "ordered", made.get(), rank);
      expect_code(rueda_wait_stream(handle, made.get(), -1.0), RUEDA_OK, "wait_stream");
      std::vector<float> seen;
      gpu().launch(made.get(), [&] { seen = memory.values(); });
      gpu().drain(made.get());
      expect_sums(seen, 2, "seen by the stream");
      expect_done(handle, "ordered");
    }
  });
}

TEST_CASE("the legacy stream and the calling thread's own are ordered as others are") {
  gpu();
  const auto stream = GENERATE(static_cast<CUstream>(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  run_ranks(1, [stream](rueda_session* session, int) {
    const GpuMemory<float> memory(std::vector<float>(1000, -1.0f));
    gpu().launch(stream, [&memory] {
      const std::vector<float> values = numbers(0, 1000);
      std::copy(values.begin(), values.end(), memory.kernels());
    });
    const rueda_handle handle = sum_on_gpu(session, memory, 1000, "special", stream, 0);
    expect_code(rueda_wait_stream(handle, stream, -1.0), RUEDA_OK, "wait_stream");
    std::vector<float> seen;
    gpu().launch(stream, [&] { seen = memory.values(); });
    gpu().drain(stream);
    expect_sums(seen, 1, "seen by the stream");
    expect_done(handle, "special");
  });
}

TEST_CASE("between enqueue and wait nothing is put into the caller's stream") {
  gpu();
  std::latch drained(1);
  run_ranks(2, [&drained](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 10));
    if (rank == 1) drained.wait();
    const rueda_handle handle = sum_on_gpu(session, memory, 10, "alone", stream.get(), rank);
    if (rank == 0) {
      gpu().drain(stream.get());  // would not return if the stream waited for the other rank
      expect(rueda_poll(handle) == 0, "the operation finished without the other rank");
      drained.count_down();
    }
    expect_done(handle, "alone");
    expect_sums(memory.values(), 2, "alone");
  });
}

TEST_CASE("a wait orders the stream that it is given, and late memory is written after what its stream did before") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuStream now(0);
    const GpuMemory<float> input(numbers(0, 1000));
    const GpuMemory<float> output(1000);
    std::latch go(1);
    LateMemory late{&output, stream.get(), &go};
    const rueda_handle handle = launch_only(session, input, 1000, late);
    expect_code(rueda_wait_stream(handle, now.get(), -1.0), RUEDA_OK, "wait_stream");
    expect(rueda_poll(handle) == 0, "the operation finished before its output was free");
    const GpuMemory<float> other(numbers(0, 1000));
    const rueda_handle again = sum_on_gpu(session, other, 1000, "late", now.get(), 0);  // its name is free
    std::vector<float> seen;
    gpu().launch(now.get(), [&] { seen = output.values(); });
    go.count_down();
    gpu().drain(now.get());
    expect_sums(seen, 1, "seen by the stream that waited");
    expect_done(handle, "late");
    expect_done(again, "the second of its name");
    gpu().drain(stream.get());
    expect_sums(output.values(), 1, "the late output");
  });
}

TEST_CASE("a loan lasts until the GPU has finished, also when nobody waits, and only then the callback runs") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> input(numbers(0, 1000));
    const GpuMemory<float> output(1000);
    std::latch go(1);
    std::latch called(1);
    LateMemory late{&output, stream.get(), &go};
    struct Seen {
      std::latch* called;
      std::latch* go;
      bool early = false;
    } seen{&called, &go};
    const GpuTensor from(input.data(), 1000, 0);
    const GpuTensor to(nullptr, 1000, 0);
    rueda_op_options options = on_stream("nobody waits", stream.get());
    options.allocate = hand_out;
    options.allocate_context = &late;
    options.callback_context = &seen;
    options.callback = [](void* context, rueda_handle, int32_t) {
      auto& mine = *static_cast<Seen*>(context);
      mine.early = !mine.go->try_wait();
      mine.called->count_down();
    };
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_wait_stream(handle, stream.get(), -1.0), RUEDA_OK, "wait_stream");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
    go.count_down();
    called.wait();
    expect(!seen.early, "the callback ran before the GPU had finished");
    expect_sums(output.values(), 1, "at the callback");
  });
}

TEST_CASE("a stream that ends after the enqueue harms nothing") {
  StandinCuda& device = gpu();
  const int before = device.counts().uses_of_dead_streams;
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int i = 0; i < 20; ++i) {
      const GpuMemory<float> memory(numbers(rank, 1000));
      rueda_handle handle = 0;
      {
        const GpuStream stream(rank);
        handle = sum_on_gpu(session, memory, 1000, "short-lived", stream.get(), rank);
      }
      expect_done(handle, "short-lived");
      expect_sums(memory.values(), 2, "short-lived");
    }
  });
  CHECK(device.counts().uses_of_dead_streams == before);
}

TEST_CASE("the calling thread's own stream is refused for memory that other threads would use it for") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuMemory<float> input(numbers(0, 10));
    const GpuTensor from(input.data(), 10, 0);
    const GpuTensor to(nullptr, 10, 0);
    const rueda_op_options options = on_stream("own", CU_STREAM_PER_THREAD);
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle),
                RUEDA_INVALID_ARGUMENT, "library's output");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("the stream is the calling thread's own") != std::string::npos, sentence);
  });
}

TEST_CASE("an operation is refused in a stream that records a graph, and the recording goes on") {
  StandinCuda& device = gpu();
  run_ranks(1, [&device](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    const GpuTensor tensor(memory.data(), 10, 0);
    const rueda_op_options options = on_stream("captured", stream.get());
    device.begin_capture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    rueda_handle handle = 0;
    const int32_t code = rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle);
    const std::string sentence = rueda_last_error();
    expect(device.end_capture(stream.get()) == 0, "the recording was spoilt, or holds something of the library's");
    expect_code(code, RUEDA_SYSTEM, "enqueue while recording");
    expect(sentence.find("a CUDA graph is being captured in this stream") != std::string::npos, sentence);
    expect_done(sum_on_gpu(session, memory, 10, "captured", stream.get(), 0), "after the recording");
  });
}

TEST_CASE("work of the library's does not spoil a graph that another thread records") {
  StandinCuda& device = gpu();
  const GpuStream recording(0);
  const auto mode = GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  device.begin_capture(recording.get(), mode);
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 3'000'000));
    expect_done(sum_on_gpu(session, memory, 3'000'000, "beside", stream.get(), rank), "beside a recording");
    expect_sums(memory.values(), 2, "beside a recording");
  });
  CHECK(device.end_capture(recording.get()) == 0);
}

TEST_CASE("with the program far ahead of the GPU, early tensors do not wait for late ones") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    constexpr int64_t kCount = 2'600'000;  // 10 MB: the four would fit in one batch of host memory
    const GpuStream stream(0);
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles;
    std::latch go(1);
    for (int i = 0; i < 4; ++i) {
      memory.push_back(std::make_unique<GpuMemory<float>>(numbers(0, kCount)));
      if (i == 2) gpu().launch(stream.get(), [&go] { go.wait(); });  // the rest of a backward pass
      const GpuTensor tensor(memory.back()->data(), kCount, 0);
      rueda_op_options options = on_stream("", stream.get());
      const std::string name = "g" + std::to_string(i);
      options.name = name.c_str();
      options.more = i < 3 ? 1 : 0;
      handles.emplace_back();
      expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handles.back()),
                  RUEDA_OK, "enqueue");
    }
    for (int i = 0; i < 2; ++i) expect_code(rueda_wait(handles[static_cast<size_t>(i)], 60.0), RUEDA_OK, "early");
    expect(rueda_poll(handles[2]) == 0 && rueda_poll(handles[3]) == 0, "late tensors were reduced before their marks");
    go.count_down();
    for (const rueda_handle handle : handles) expect_done(handle, "a gradient");
    for (const auto& each : memory) expect_sums(each->values(), 1, "a gradient");
  });
}

TEST_CASE("two process sets on one GPU finish, whatever the order in which ranks use them") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const int32_t both[] = {0, 1};
    int32_t other = 0;
    expect_code(rueda_process_set_add(session, 2, both, "other", &other), RUEDA_OK, "add");
    const GpuStream stream(0);
    const GpuMemory<float> first(2'000'000);
    const GpuMemory<float> second(2'000'000);
    for (int i = 0; i < 5; ++i) {
      rueda_handle handles[2] = {};
      for (int k = 0; k < 2; ++k) {
        const bool in_other = (k + rank + i) % 2 == 0;
        const GpuMemory<float>& memory = in_other ? second : first;
        const std::vector<float> values = numbers(rank, 2'000'000);
        std::copy(values.begin(), values.end(), memory.kernels());
        const GpuTensor tensor(memory.data(), 2'000'000, 0);
        rueda_op_options options = on_stream(in_other ? "b" : "a", stream.get());
        options.process_set = in_other ? other : RUEDA_GLOBAL_SET;
        expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handles[k]),
                    RUEDA_OK, "enqueue");
      }
      for (const rueda_handle handle : handles) expect_done(handle, "one of two sets");
      expect_sums(first.values(), 2, "the set of all");
      expect_sums(second.values(), 2, "the other set");
    }
  });
}

}  // namespace
}  // namespace rueda::test
