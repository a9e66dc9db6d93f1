// Contexts, memory and faults of a GPU, which a stand-in is.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>

#include "ops/cuda/device_functions.h"
#include "runtime/base/plugin.h"
#include "tests/ops/cuda/gpu.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

/// Ends what `fail` began, also if an expectation fails.
class Failing {
 public:
  Failing(const char* function, int after, CUresult error, bool sticky) { gpu().fail(function, after, error, sticky); }
  ~Failing() { gpu().heal(); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

/// Runs `body` in a forked child and returns how the child ended.
template <typename Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // Catch would report it as a failure of the parent's
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("a job of CPU tensors makes no context on any GPU") {
  const int before = gpu().counts().contexts;
  run_ranks(2, [](rueda_session* session, int) { expect_usable(session, "on the CPU"); });
  CHECK(gpu().counts().contexts == before);
}

TEST_CASE("a rank makes a context on its own GPU only, and once") {
  const int first = gpu().contexts_of(0);
  for (int i = 0; i < 2; ++i) {
    run_ranks(1, [](rueda_session* session, int) {
      const GpuStream stream(1);
      const GpuMemory<float> memory(numbers(0, 10));
      expect_done(sum_on_gpu(session, memory, 10, "second GPU", stream.get(), 1), "second GPU");
    });
  }
  CHECK(gpu().contexts_of(0) == first);
  CHECK(gpu().contexts_of(1) == 1);
}

TEST_CASE("in the steady state memory and events are used again") {
  const Variable host("RUEDA_NCCL", "0");
  StandinCuda& device = gpu();
  run_ranks(1, [&device](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(3'000'000);
    const auto step = [&] {
      for (const int64_t count : {int64_t{10}, int64_t{3'000'000}, int64_t{100'000}}) {
        expect_done(sum_on_gpu(session, memory, count, "step", stream.get(), 0), "step");
      }
    };
    for (int i = 0; i < 5; ++i) step();
    const StandinCounts before = device.counts();
    for (int i = 0; i < 20; ++i) step();
    const StandinCounts after = device.counts();
    // Three blocks of each of three sizes are made when they are first needed, and a few marks more, which may be late.
    expect(after.allocations - before.allocations <= 9, "memory was allocated by each step");
    expect(after.frees == before.frees, "memory was freed");
    expect(after.events_alive - before.events_alive <= 20, "events were made by each step");
    expect(after.copies - before.copies >= 120, "nothing was copied: the test looks at another device");
  });
}

TEST_CASE("what is pinned is not used anew before the GPU has copied from it") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kCount = 12'000'000;  // a dozen pieces, which share three blocks
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, kCount));
    expect_done(sum_on_gpu(session, memory, kCount, "pinned", stream.get(), rank), "pinned");
    expect_sums(memory.values(), 2, "pinned");
  });
}

TEST_CASE("library-owned outputs on a GPU are freed with their handles") {
  StandinCuda& device = gpu();
  run_ranks(2, [&device](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 100));
    const GpuTensor tensor(memory.data(), 100, rank);
    const rueda_op_options options = on_stream("owned", stream.get());
    for (int i = 0; i < 3; ++i) {
      rueda_handle handle = 0;
      expect_code(rueda_allgather_async(session, tensor.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
      expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
      const int frees = device.counts().frees;
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
      expect(output.device == RUEDA_DEVICE_CUDA && output.device_index == rank && output.shape[0] == 200, "output");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      expect(device.counts().frees > frees, "the output was not freed");
    }
  });
}

TEST_CASE("code of the host that touches memory of a GPU ends its process") {
  const GpuMemory<float> memory(4);
  CHECK(in_child([&memory] { *static_cast<volatile float*>(memory.data()) = 1; }) != 0);
}

TEST_CASE("a forked child makes no call of CUDA") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    const GpuTensor from(memory.data(), 10, 0);
    const GpuTensor to(nullptr, 10, 0);
    const rueda_op_options options = on_stream("inherited", stream.get());
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    const int status = in_child([&] {
      static_cast<void>(rueda_release(handle));
      rueda_handle refused = 0;
      const int32_t code = rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &refused);
      ::_exit(code != RUEDA_OK && gpu().counts().calls_after_fork == 0 ? 7 : 1);
    });
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child called CUDA, or enqueued");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

/// What the plug-in has of GPU 0 before the fork, and what it does with that in a child.
class Inherited {
 public:
  Inherited() {
    REQUIRE(functions_.mark(context_, 0, stream_.get(), &mark_) == 0);
    REQUIRE(functions_.mark_time(context_, 0, engine_stream(), &timed_) == 0);
    memory_ = functions_.allocate(context_, 0, 64, engine_stream());
    pinned_ = functions_.allocate_pinned(context_, 0, 64);
    REQUIRE((memory_ != nullptr && pinned_ != nullptr));
  }
  ~Inherited() { free_all(); }
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;

  void free_all() {
    functions_.free_token(context_, mark_);
    functions_.free_token(context_, timed_);
    functions_.free(context_, 0, memory_, stream_.get());
    functions_.free_pinned(context_, 0, pinned_, 64);
  }
  /// Whether each function that has something to return refuses, with a sentence.
  bool refuse() {
    uint64_t token = 0;
    int64_t nanoseconds = 0;
    const auto says_why = [this](bool refuses) {
      std::array<char, 256> text{};
      functions_.why(context_, text.data(), text.size());
      return refuses && std::string(text.data()).find("fork") != std::string::npos;
    };
    const auto told = [](void*) {};
    return says_why(functions_.mark(context_, 0, stream_.get(), &token) != 0) &&
           says_why(functions_.order_after(context_, 0, mark_, stream_.get()) != 0) &&
           says_why(functions_.poll(context_, mark_) < 0) &&
           says_why(functions_.notify(context_, mark_, core::MarkAsker::kLane, told, nullptr) != 0) &&
           says_why(engine_stream() == nullptr) &&
           says_why(functions_.copy(context_, 0, memory_, pinned_, 64, stream_.get()) != 0) &&
           says_why(functions_.allocate(context_, 0, 64, stream_.get()) == nullptr) &&
           says_why(functions_.allocate_pinned(context_, 0, 64) == nullptr) &&
           says_why(functions_.mark_time(context_, 0, stream_.get(), &token) != 0) &&
           says_why(functions_.time_of(context_, timed_, &nanoseconds) != 0);
  }

 private:
  static cuda::Devices& devices() {
    gpu();
    static const rueda_host host = core::bare_host();
    static auto& one = *new cuda::Devices(host);
    return one;
  }
  void* engine_stream() { return functions_.engine_stream(context_, 0, core::EngineStream::kToHost); }

  core::DeviceFunctions functions_ = cuda::device_functions(devices());
  void* context_ = functions_.context;
  GpuStream stream_{0};
  uint64_t mark_ = 0;
  uint64_t timed_ = 0;
  void* memory_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_CASE("the plug-in itself makes no call of CUDA in a forked child, whoever asks it") {
  Inherited inherited;
  const int status = in_child([&inherited] {
    const bool refused = inherited.refuse();
    inherited.free_all();
    ::_exit(!refused ? 1 : gpu().counts().calls_after_fork == 0 ? 7 : 2);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}

TEST_CASE("a fault of a GPU names call, device and tensor, and ends the epoch; a new session works") {
  const Variable host("RUEDA_NCCL", "0");
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "before", stream.get(), 0), "before");
    const Failing failing("cuMemcpyAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
    const Ending ending = finish(sum_on_gpu(session, memory, 10, "faulty", stream.get(), 0));
    expect(ending.code == RUEDA_SYSTEM, ending.sentence);
    for (const char* part : {"\"faulty\"", "device cuda number 0", "cuMemcpyAsync: an illegal memory access was",
                             "CUDA_ERROR_ILLEGAL_ADDRESS"}) {
      expect(ending.sentence.find(part) != std::string::npos, ending.sentence + " does not say " + part);
    }
    expect(rueda_session_status(session) != RUEDA_OK, "the epoch goes on");
  });
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "after", stream.get(), 0), "after");
  });
}

TEST_CASE("a fault of one rank's GPU ends the wait of the others") {
  gpu();
  std::vector<std::string> sentences(2);
  run_ranks(2, [&sentences](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 10));
    expect_done(sum_on_gpu(session, memory, 10, "before", stream.get(), rank), "before");
    expect_usable(session, "the copies of both are made");  // the next one fails, whichever rank makes it
    if (rank == 0) gpu().fail("cuMemcpyAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, false);
    expect_usable(session, "both have come here");
    const Ending ending = finish(sum_on_gpu(session, memory, 10, "faulty", stream.get(), rank));
    expect(ending.code != RUEDA_OK, "a rank succeeded");
    sentences[static_cast<size_t>(rank)] = ending.sentence;
  });
  gpu().heal();
  INFO(sentences[0] << "\n" << sentences[1]);
  CHECK((sentences[0] + sentences[1]).find("cuMemcpyAsync") != std::string::npos);
}

TEST_CASE("no pinned memory, no such GPU and a copy that cannot start are each one sentence") {
  const Variable host("RUEDA_NCCL", "0");
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuMemory<float> memory(numbers(0, 10));
    const GpuTensor tensor(memory.data(), 10, 9);
    const rueda_op_options options = on_stream("ninth", nullptr);
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_SYSTEM, "GPU 9");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("there is no GPU 9; this process sees 2") != std::string::npos, sentence);
    expect_usable(session, "after a GPU that is not there");
  });
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(7'000'000);  // pieces of a size that no other test has had pinned on this GPU
    const Failing failing("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    const Ending ending = finish(sum_on_gpu(session, memory, 10, "no memory", stream.get(), 0));
    expect(ending.code == RUEDA_SYSTEM, ending.sentence);
    expect(ending.sentence.find("bytes of pinned memory: cuMemHostAlloc: out of memory") != std::string::npos,
           ending.sentence);
  });
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    const Failing failing("cuMemcpyAsync", 1, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, false);
    const Ending ending = finish(sum_on_gpu(session, memory, 10, "of a peer", stream.get(), 0));
    expect(ending.code == RUEDA_SYSTEM, ending.sentence);
    expect(ending.sentence.find("cuMemcpyAsync: peer access is not supported between these two devices") !=
               std::string::npos,
           ending.sentence);
  });
}

TEST_CASE("an output that a GPU has no memory for names the bytes and the driver's reason, and the job goes on") {
  const Variable host("RUEDA_NCCL", "0");
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "before", stream.get(), 0), "before");
    const GpuTensor from(memory.data(), 10, 0);
    const GpuTensor to(nullptr, 10, 0);
    const rueda_op_options options = on_stream("owned", stream.get());
    rueda_handle handle = 0;
    {
      const Failing pool("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
      const Failing plain("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
      expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_SYSTEM,
                  "known size");
      const std::string known = rueda_last_error();
      expect(known.find("device cuda number 0 could not give 40 bytes for an output: cuMemAlloc") != std::string::npos,
             known);
      expect_code(rueda_allgather_async(session, from.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
      const Ending late = finish(handle);
      expect(late.code == RUEDA_SYSTEM, late.sentence);
      for (const char* part : {"device cuda number 0 could not give 40 bytes for the output of allgather \"owned\"",
                               ": cuMemAlloc", "out of memory"}) {
        expect(late.sentence.find(part) != std::string::npos, late.sentence + " does not say " + part);
      }
    }
    expect_done(sum_on_gpu(session, memory, 10, "after", stream.get(), 0), "after");
  });
}

TEST_CASE("a tensor on another GPU than the set's others is refused, with both numbers, and the set goes on") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "first", stream.get(), 0), "first");
    const GpuTensor other(memory.data(), 10, 1);
    const rueda_op_options options = on_stream("other", stream.get());
    expect_code(rueda_allreduce(session, other.get(), other.get(), RUEDA_SUM, &options), RUEDA_INVALID_ARGUMENT,
                "another GPU");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("uses device cuda number 0 in process set 0, and this tensor is on number 1") !=
               std::string::npos,
           sentence);
    expect_done(sum_on_gpu(session, memory, 10, "again", stream.get(), 0), "again");
  });
}

TEST_CASE("the statistics say what the plug-in holds") {
  const Variable host("RUEDA_NCCL", "0");
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "held", stream.get(), 0), "held");
    std::vector<char> text(1 << 16);
    size_t bytes = 0;
    expect_code(rueda_stats(session, text.data(), text.size(), &bytes), RUEDA_OK, "stats");
    const std::string stats(text.data());
    const std::string field = "\"plugins\":";
    expect(std::stoull(stats.substr(stats.find(field) + field.size())) >= 65536, stats);
  });
}

TEST_CASE("no function that the driver calls has called the driver, and no copy has let the host wait") {
  const Variable host("RUEDA_NCCL", "0");
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(0, 10));
    expect_done(sum_on_gpu(session, memory, 10, "counted", stream.get(), 0), "counted");
  });
  const StandinCounts counts = gpu().counts();
  CHECK(counts.copies > 0);
  CHECK(counts.calls_in_host_functions == 0);
  CHECK(counts.pageable_copies == 0);
}

}  // namespace
}  // namespace rueda::test
