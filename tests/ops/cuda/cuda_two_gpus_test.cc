// Ranks with tensors on two GPUs, which use a process set for each. GPUs and NCCL are stand-ins.
#include <barrier>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/ops/cuda/nccl.h"

namespace rueda::test {
namespace {

const std::vector<std::string> kTwoHosts = {"a", "a", "b", "b"};

/// Sums of one rank in two process sets of all ranks: those of the set of all are on one GPU, the others on another.
class TwoGpus {
 public:
  explicit TwoGpus(rueda_session* session) : session_(session), rank_(rueda_rank(session)), size_(rueda_size(session)) {
    std::vector<int32_t> all;
    for (int32_t rank = 0; rank < size_; ++rank) all.push_back(rank);
    expect_code(rueda_process_set_add(session, all.size(), all.data(), "second GPU", &sets_[1]), RUEDA_OK, "add");
    for (const int which : {0, 1}) streams_[which].emplace(gpu_of(which));
  }
  int gpu_of(int which) const { return rank_ + which * size_; }
  /// Begins the sum of new numbers on one of the GPUs.
  void begin(int which, int64_t count) {
    Sum& sum = sums_[which];
    if (sum.count != count) sum.memory.emplace(static_cast<size_t>(count));
    sum.count = count;
    const std::vector<float> values = numbers(rank_, static_cast<size_t>(count));
    std::copy(values.begin(), values.end(), sum.memory->kernels());
    const GpuTensor tensor(sum.memory->data(), count, gpu_of(which));
    rueda_op_options options = on_stream(which == 0 ? "first" : "second", streams_[which]->get());
    options.process_set = sets_[which];
    expect_code(rueda_allreduce_async(session_, tensor.get(), tensor.get(), RUEDA_SUM, &options, &sum.handle), RUEDA_OK,
                "enqueue");
  }
  /// Waits until all of it is in the GPU's streams.
  void await_launch(int which) const {
    expect_code(rueda_wait_stream(sums_[which].handle, streams_[which]->get(), -1.0), RUEDA_OK, "launched");
  }
  /// Waits until the GPU is through with it; sums finish in the order of launching.
  void await_gpu(int which) const {
    await_launch(which);
    gpu().drain(streams_[which]->get());
  }
  void finish(int which) const {
    const std::string what = "on GPU " + std::to_string(gpu_of(which));
    expect_done(sums_[which].handle, what);
    expect_sums(sums_[which].memory->values(), size_, what);
  }
  bool finished(int which) const { return rueda_poll(sums_[which].handle) != 0; }

 private:
  struct Sum {
    int64_t count = -1;
    std::optional<GpuMemory<float>> memory;
    rueda_handle handle = 0;
  };
  rueda_session* const session_;
  const int rank_;
  const int size_;
  int32_t sets_[2] = {RUEDA_GLOBAL_SET, 0};
  std::optional<GpuStream> streams_[2];
  Sum sums_[2];
};

TEST_CASE("a rank with tensors on two GPUs uses a process set for each, over NCCL, in two levels or by the host") {
  const std::string way = GENERATE("host", "NCCL", "two levels");
  const Variable use("RUEDA_NCCL", way == "host" ? "0" : "1");
  const Variable levels("RUEDA_HIERARCHICAL_ALLREDUCE", way == "two levels" ? "1" : "0");
  const int made = use_nccl().counts().made;
  run_ranks(kTwoHosts, [&way](rueda_session* session, int) {
    TwoGpus gpus(session);
    for (const int64_t count : {1, 33, 100'000, 2'500'001}) {
      for (const int which : {0, 1}) gpus.begin(which, count);
      for (const int which : {1, 0}) gpus.finish(which);
    }
    expect((batches_by_nccl(session) == 0) == (way == "host"), "the batches went another way");
  });
  const int communicators = way == "host" ? 0 : way == "NCCL" ? 2 : 4;  // of a rank
  CHECK(use_nccl().counts().made - made == 4 * communicators);
  CHECK(use_nccl().counts().misuses == 0);
}

/// What the last copies of a batch read must stay while they wait in their stream, though the next batch is on the
/// other GPU. That batch is over before they run.
TEST_CASE("in two levels a batch on one GPU leaves alone what copies of a batch on another GPU are about to read") {
  const Variable levels("RUEDA_HIERARCHICAL_ALLREDUCE", "1");
  use_nccl();
  run_ranks(kTwoHosts, [](rueda_session* session, int) {
    TwoGpus gpus(session);
    for (int i = 0; i < 4; ++i) {
      const int held = i % 2;
      gpu().hold_copies(gpus.gpu_of(held));
      gpus.begin(held, 100'000 + i);
      gpus.await_launch(held);
      gpus.begin(1 - held, 50'000 + i);
      gpus.await_gpu(1 - held);
      expect(!gpus.finished(held), "the first sum was finished without its copies");
      gpu().let_copies_go(gpus.gpu_of(held));
      gpus.finish(held);
      gpus.finish(1 - held);
    }
  });
  CHECK(use_nccl().counts().misuses == 0);
}

TEST_CASE("in the steady state ranks that use two GPUs in turn allocate and free nothing") {
  const Variable levels("RUEDA_HIERARCHICAL_ALLREDUCE", GENERATE("1", "0"));
  use_nccl();
  std::barrier all(static_cast<std::ptrdiff_t>(kTwoHosts.size()));
  run_ranks(kTwoHosts, [&all](rueda_session* session, int) {
    TwoGpus gpus(session);
    const auto step = [&gpus] {
      for (const int which : {0, 1}) {
        gpus.begin(which, 100'000);
        gpus.finish(which);
      }
    };
    for (int i = 0; i < 5; ++i) step();
    all.arrive_and_wait();
    const StandinCounts before = gpu().counts();
    const NcclCounts called = standin_nccl().counts();
    all.arrive_and_wait();
    for (int i = 0; i < 20; ++i) step();
    all.arrive_and_wait();
    const StandinCounts after = gpu().counts();
    expect(after.allocations == before.allocations, "memory was allocated in the steady state");
    expect(after.frees == before.frees, "memory was freed in the steady state");
    expect(standin_nccl().counts().made == called.made, "communicators were made in the steady state");
    all.arrive_and_wait();
  });
}

}  // namespace
}  // namespace rueda::test
