// Tensors on a device through librueda.so: a device whose streams run when the test lets them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <latch>

#include "tests/bindings/plugin_parts.h"

namespace rueda::test {
namespace {

/// The test plug-in for a case. No mark of its device is left at the end.
class OnFakeDevice {
 protected:
  OnFakeDevice() = default;
  ~OnFakeDevice() { CHECK(device.counts().marks_alive == before.marks_alive); }
  OnFakeDevice(const OnFakeDevice&) = delete;
  OnFakeDevice& operator=(const OnFakeDevice&) = delete;

  const Variables variables{Values{{"RUEDA_PLUGINS", kTestPlugin}}};
  FakeDevice& device = fake_device();
  const FakeDeviceCounts before = device.counts();
};

rueda_op_options on_stream(const char* name, void* stream) {
  rueda_op_options options = named(name);
  options.stream = stream;
  return options;
}

/// Starts a sum on the fake device.
rueda_handle start_sum(rueda_session* session, CTensor& from, CTensor& to, const rueda_op_options& options) {
  from->device = to->device = kFakeDevice;
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK, "enqueue");
  return handle;
}

/// The same of `values`, in place.
rueda_handle sum_on_device(rueda_session* session, std::vector<float>& values, const char* name, void* stream) {
  CTensor tensor(values, RUEDA_F32);
  return start_sum(session, tensor, tensor, on_stream(name, stream));
}

TEST_CASE_METHOD(
    OnFakeDevice,
    "a batch reads a device tensor only after its mark, and what is done before is seen by the caller's stream") {
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input(1000, -1.0f);
    std::vector<float> output(1000);
    std::latch go(1);
    device.enqueue(stream.get(), [&] {
      go.wait();
      std::ranges::copy(numbers(rank, 1000), input.begin());  // in place: the buffer is lent
    });
    CTensor from(input, RUEDA_F32);
    CTensor to(output, RUEDA_F32);
    from->device = to->device = kFakeDevice;
    const rueda_op_options options = on_stream("on device", stream.get());
    const rueda_handle handle = start_sum(session, from, to, options);
    device.await_early_polls(before.polls_too_early + 1);
    expect(rueda_poll(handle) == 0, "the operation finished before its input was there");
    expect_code(rueda_wait(handle, 0.0), RUEDA_TIMEOUT, "wait before the input is there");
    expect_code(rueda_wait_stream(handle, stream.get(), 0.0), RUEDA_TIMEOUT, "wait_stream before the input is there");
    go.count_down();
    const FakeStream another;
    float seen = 0;
    expect_code(rueda_wait_stream(handle, another.get(), -1.0), RUEDA_OK, "wait_stream");
    device.enqueue(another.get(), [&] { seen = output[999]; });
    device.drain(another.get());
    expect(seen == sum_of_numbers(2, 999), "the stream that waited read " + std::to_string(seen));
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    expect_summed_numbers(output, 2, "device tensor");
    rueda_tensor placed{};
    placed.struct_size = sizeof placed;
    expect_code(rueda_output(handle, 0, &placed), RUEDA_OK, "output");
    expect(placed.device == kFakeDevice && placed.data == output.data(), "the output is described as another");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE_METHOD(
    OnFakeDevice,
    "an operation is launched when the device has the rest of it, and finished when the device has done that") {
  run_ranks(1, [&](rueda_session* session, int) {
    const FakeStream stream;
    std::latch go(1);
    device.enqueue(device.engine_stream(1), [&] { go.wait(); });  // copies to the device wait
    std::vector<float> values = numbers(0, 10);
    const rueda_handle handle = sum_on_device(session, values, "launched", stream.get());
    expect_code(rueda_wait_stream(handle, stream.get(), -1.0), RUEDA_OK, "wait_stream");
    expect(rueda_poll(handle) == 0, "the operation finished before the device");
    expect_code(rueda_wait(handle, 0.0), RUEDA_TIMEOUT, "wait before the device has finished");
    go.count_down();
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    expect(rueda_poll(handle) == 1, "the operation is waited for and has not finished");
    expect_code(rueda_wait_stream(handle, stream.get(), -1.0), RUEDA_OK, "wait_stream at the end");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

/// Waits until what this rank has enqueued so far is agreed on: an operation of another process set is agreed on behind
/// it.
void expect_agreed_by_now(rueda_session* session) {
  const int32_t own = 0;
  int32_t other = 0;
  expect_code(rueda_process_set_add(session, 1, &own, "other", &other), RUEDA_OK, "add");
  std::vector<float> values = numbers(0, 10);
  CTensor tensor(values, RUEDA_F32);
  rueda_op_options options = named("behind");
  options.process_set = other;
  expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "behind");
}

TEST_CASE_METHOD(
    OnFakeDevice,
    "what piles up while a device works leaves as one batch: a credit comes back when the device has finished") {
  run_ranks(1, [&](rueda_session* session, int) {
    const FakeStream stream;
    const FakeStream waiting;
    std::latch go(1);
    device.enqueue(device.engine_stream(1), [&] { go.wait(); });
    std::vector<std::vector<float>> values(8, numbers(0, 10));
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < values.size(); ++i) {
      handles.push_back(sum_on_device(session, values[i], ("t" + std::to_string(i)).c_str(), stream.get()));
      if (i < 2) expect_code(rueda_wait_stream(handles[i], waiting.get(), -1.0), RUEDA_OK, "wait_stream");
    }
    expect_agreed_by_now(session);
    go.count_down();
    for (const rueda_handle handle : handles) expect(finish(handle).code == RUEDA_OK, "an all-reduce failed");
    std::vector<char> text(1 << 16);
    size_t bytes = 0;
    expect_code(rueda_stats(session, text.data(), text.size(), &bytes), RUEDA_OK, "stats");
    const std::string stats(text.data());
    expect(stats.find("\"batches\":4,") != std::string::npos,
           "two, that of the other set, and then all the others: " + stats);
  });
}

TEST_CASE_METHOD(OnFakeDevice, "every kind of operation goes through the host's algorithms, in pieces and whole") {
  const int64_t rows = GENERATE(int64_t{0}, int64_t{1}, int64_t{7}, int64_t{2'500'001});
  run_ranks(3, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    const rueda_op_options options = on_stream("all", stream.get());
    std::vector<float> values = numbers(rank, static_cast<size_t>(rows));
    const rueda_handle handle = sum_on_device(session, values, "sum", stream.get());
    expect(finish(handle).code == RUEDA_OK, "all-reduce");
    expect_summed_numbers(values, 3, "all-reduce");
    values = numbers(rank, static_cast<size_t>(rows));
    CTensor tensor(values, RUEDA_F32);
    tensor->device = kFakeDevice;
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 2, &options), RUEDA_OK, "broadcast");
    expect(values == numbers(2, static_cast<size_t>(rows)), "broadcast of another rank's values");
    rueda_handle gathered = 0;
    expect_code(rueda_allgather_async(session, tensor.get(), nullptr, &options, &gathered), RUEDA_OK, "all-gather");
    expect_code(rueda_wait(gathered, -1.0), RUEDA_OK, "all-gather");
    rueda_tensor placed{};
    placed.struct_size = sizeof placed;
    expect_code(rueda_output(gathered, 0, &placed), RUEDA_OK, "output");
    expect(placed.shape[0] == 3 * rows && placed.device == kFakeDevice, "all-gather of another shape");
    for (int64_t i = 0; i < 3 * rows; ++i) {
      if (static_cast<const float*>(placed.data)[i] != values[static_cast<size_t>(i % rows)])
        expect(false, "all-gather");
    }
    expect_code(rueda_release(gathered), RUEDA_OK, "release");
    std::ranges::copy(numbers(rank, static_cast<size_t>(rows)), values.begin());
    const int64_t own = rows / 3 + (rank < rows % 3 ? 1 : 0);
    std::vector<float> part(static_cast<size_t>(own) + 1, -1.0f);
    CTensor to(part.data(), RUEDA_F32, {own});
    to->device = kFakeDevice;
    expect_code(rueda_reducescatter(session, tensor.get(), to.get(), RUEDA_SUM, &options), RUEDA_OK, "reduce-scatter");
    const int64_t begin = rank * (rows / 3) + std::min<int64_t>(rank, rows % 3);
    for (int64_t i = 0; i < own; ++i) {
      if (part[static_cast<size_t>(i)] == sum_of_numbers(3, static_cast<size_t>(begin + i))) continue;
      expect(false, "reduce-scatter");
    }
    expect(part.back() == -1.0f, "reduce-scatter wrote behind its output");
  });
}

TEST_CASE_METHOD(OnFakeDevice, "a rank uses one device of a kind in a set, and is told so") {
  run_ranks(1, [&](rueda_session* session, int) {
    const FakeStream stream;
    std::vector<float> values = {1};
    expect(finish(sum_on_device(session, values, "first", stream.get())).code == RUEDA_OK, "number 0");
    CTensor tensor(values, RUEDA_F32);
    tensor->device = kFakeDevice;
    tensor->device_index = 3;
    const rueda_op_options options = on_stream("second", stream.get());
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_INVALID_ARGUMENT,
                "number 3");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("rank 0 uses device fake number 0 in process set 0, and this tensor is on number 3") !=
               std::string::npos,
           sentence);
  });
}

TEST_CASE_METHOD(OnFakeDevice, "outputs without memory are allocated on the device and freed with the handle") {
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input = numbers(rank, 10);
    CTensor from(input, RUEDA_F32);
    CTensor to(nullptr, RUEDA_F32, {10});
    from->device = to->device = kFakeDevice;
    const rueda_op_options options = on_stream("library's place", stream.get());
    const rueda_handle handle = start_sum(session, from, to, options);
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    rueda_tensor placed{};
    placed.struct_size = sizeof placed;
    expect_code(rueda_output(handle, 0, &placed), RUEDA_OK, "output");
    const auto* sums = static_cast<const float*>(placed.data);
    expect_summed_numbers({sums, sums + 10}, 2, "library's place");
    expect(device.counts().memory_alive > before.memory_alive, "the output is not the device's memory");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  CHECK(device.counts().memory_alive == before.memory_alive);
}

TEST_CASE_METHOD(OnFakeDevice,
                 "the caller's allocation callback is told the device, and without memory a sink on it stands in") {
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input = numbers(rank, 10);
    std::vector<float> place(10);
    struct Asked {
      float* place;
      int32_t device = -1;
    } asked{rank == 0 ? place.data() : nullptr};
    CTensor from(input, RUEDA_F32);
    CTensor to(nullptr, RUEDA_F32, {10});
    from->device = to->device = kFakeDevice;
    rueda_op_options options = on_stream("caller's place", stream.get());
    options.allocate_context = &asked;
    options.allocate = [](void* context, size_t, int32_t kind, int32_t, void*) {
      static_cast<Asked*>(context)->device = kind;
      return static_cast<void*>(static_cast<Asked*>(context)->place);
    };
    const rueda_handle handle = start_sum(session, from, to, options);
    expect_code(rueda_wait(handle, -1.0), rank == 0 ? RUEDA_OK : RUEDA_SYSTEM, "wait");
    expect(asked.device == kFakeDevice, "the callback was told another device");
    if (rank == 0) expect_summed_numbers(place, 2, "caller's place");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  CHECK(device.counts().memory_alive == before.memory_alive);
}

TEST_CASE_METHOD(OnFakeDevice, "input and output, and the members of a group, lie on one device") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> a = {1};
    std::vector<float> b = {2};
    const CTensor host(a, RUEDA_F32);
    CTensor on_device(b, RUEDA_F32);
    on_device->device = kFakeDevice;
    expect_code(rueda_allreduce(session, host.get(), on_device.get(), RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "pair");
    const rueda_tensor group[2] = {*host.get(), *on_device.get()};
    expect_code(rueda_grouped_allreduce(session, 2, group, group, nullptr, RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "group");
  });
}

TEST_CASE_METHOD(
    OnFakeDevice,
    "ranks whose tensors lie on different devices get one sentence, of every collective, cached and uncached") {
  std::vector<std::vector<std::string>> sentences(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    for (const Submission::Kind kind : kAllKinds) {
      if (kind == Submission::Kind::kBarrier) continue;
      const Submission usual{.kind = kind};
      Submission odd = usual;
      odd.device = kFakeDevice;
      const FakeStream stream;
      rueda_op_options options = named(name_of(kind));
      if (rank == 1) options.stream = stream.get();
      for (int i = 0; i < 2; ++i) {
        std::vector<double> memory(16, 1.0);
        rueda_handle handle = 0;
        expect_code(enqueue(session, rank == 1 ? odd : usual, memory.data(), options, &handle), RUEDA_OK, "enqueue");
        const Ending ending = finish(handle);
        expect(ending.code == RUEDA_MISMATCH, std::string(name_of(kind)) + ": " + ending.sentence);
        expect(ending.sentence.find("device differs: rank 0 (host") != std::string::npos &&
                   ending.sentence.find("sent device kind") != std::string::npos,
               ending.sentence);
        sentences[static_cast<size_t>(rank)].push_back(ending.sentence);
        const Ending again = run(session, usual, name_of(kind));  // and the next one goes by number
        expect(again.code == RUEDA_OK, again.sentence);
      }
    }
    expect_usable(session, "at the end");
  });
  CHECK(sentences[0].size() == 2 * (kAllKinds.size() - 1));
  CHECK(sentences[0] == sentences[1]);
}

TEST_CASE_METHOD(OnFakeDevice, "a device mark whose operation was refused is freed") {
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::latch go(1);
    device.enqueue(stream.get(), [&go] { go.wait(); });
    std::vector<float> values = numbers(rank, 4);
    std::vector<float> again = values;
    CTensor tensor(values, RUEDA_F32);
    CTensor second(again, RUEDA_F32);
    tensor->device = second->device = kFakeDevice;
    const rueda_op_options options = on_stream("twice", stream.get());
    rueda_handle handle = 0;
    rueda_handle refused = 0;
    expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_allreduce_async(session, second.get(), second.get(), RUEDA_SUM, &options, &refused),
                RUEDA_INVALID_ARGUMENT, "the name in flight");
    go.count_down();
    expect(finish(handle).code == RUEDA_OK, "the first one failed");
    expect_summed_numbers(values, 2, "the first one");
  });
}

}  // namespace
}  // namespace rueda::test
