// What steps of a training take from a GPU once the first ones have run: nothing. GPUs and NCCL are stand-ins.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/ops/cuda/nccl.h"

namespace rueda::test {
namespace {

/// Operations of a step on one rank, in memory that all steps use.
class Steps {
 public:
  Steps(rueda_session* session, int rank) : session_(session), rank_(rank), size_(rueda_size(session)), stream_(rank) {}
  void sums() const {
    for (const int64_t count : {10, 100'000, 1'000'000}) {
      const GpuTensor tensor(whole_.data(), count, rank_);
      const rueda_op_options options = on_stream("sum", stream_.get());
      expect_code(rueda_allreduce(session_, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "sum");
    }
    // Small tensors of one group are packed.
    const GpuTensor first(whole_.data(), 10, rank_);
    const GpuTensor second(whole_.data() + 10, 7, rank_);
    rueda_tensor both[] = {*first.get(), *second.get()};
    const rueda_op_options options = on_stream("group", stream_.get());
    expect_code(rueda_grouped_allreduce(session_, 2, both, both, nullptr, RUEDA_SUM, &options), RUEDA_OK, "group");
  }
  void gathers() const {
    for (const int64_t count : {10, 100'000}) {
      const GpuTensor from(part_.data(), count, rank_);
      const GpuTensor to(whole_.data(), count * size_, rank_);
      rueda_op_options options = on_stream("gather", stream_.get());
      expect_code(rueda_allgather(session_, from.get(), to.get(), &options), RUEDA_OK, "gather");
      options.same_rows = 1;
      expect_code(rueda_allgather(session_, from.get(), to.get(), &options), RUEDA_OK, "gather of equal parts");
    }
  }
  void scatters() const {
    for (const int64_t count : {10, 100'000}) {
      const GpuTensor from(whole_.data(), count * size_, rank_);
      const GpuTensor to(part_.data(), count, rank_);
      const rueda_op_options options = on_stream("scatter", stream_.get());
      expect_code(rueda_reducescatter(session_, from.get(), to.get(), RUEDA_SUM, &options), RUEDA_OK, "scatter");
    }
  }

 private:
  rueda_session* const session_;
  const int rank_;
  const int size_;
  const GpuStream stream_;
  const GpuMemory<float> whole_{1'000'000};
  const GpuMemory<float> part_{100'000};
};

void expect_steady(const std::vector<std::string>& hosts, void (Steps::*step)() const) {
  StandinNccl& library = use_nccl();
  std::barrier all(static_cast<std::ptrdiff_t>(hosts.size()));
  run_ranks(hosts, [&](rueda_session* session, int rank) {
    const Steps steps(session, rank);
    for (int i = 0; i < 5; ++i) (steps.*step)();
    all.arrive_and_wait();
    const StandinCounts before = gpu().counts();
    const NcclCounts called = library.counts();
    all.arrive_and_wait();
    for (int i = 0; i < 20; ++i) (steps.*step)();
    all.arrive_and_wait();
    const StandinCounts after = gpu().counts();
    expect(after.allocations == before.allocations, "memory was allocated in the steady state");
    expect(after.frees == before.frees, "memory was freed in the steady state");
    expect(after.contexts == before.contexts && after.loads == before.loads, "contexts were made, or kernels loaded");
    expect(after.events_alive - before.events_alive <= 20, "events were made by each step");
    expect(library.counts().made == called.made && library.counts().operators == called.operators,
           "communicators or operators of NCCL's were made");
    expect(batches_by_nccl(session) > 0, "NCCL has run nothing: the test looks at another way");
    all.arrive_and_wait();
  });
  CHECK(library.counts().misuses == 0);
}

TEST_CASE("in the steady state sums, gathers and scatters over NCCL allocate and free nothing") {
  for (void (Steps::*const step)() const : {&Steps::sums, &Steps::gathers, &Steps::scatters}) {
    expect_steady({"a", "a"}, step);
  }
}

TEST_CASE("in the steady state sums in deterministic mode allocate and free nothing on GPUs") {
  if (RUEDA_TEST_KERNELS == 0) return;
  const Variable deterministic("RUEDA_DETERMINISTIC", "1");
  expect_steady({"a", "a"}, &Steps::sums);
}

TEST_CASE("in the steady state sums in two levels allocate and free nothing on GPUs") {
  const Variable levels("RUEDA_HIERARCHICAL_ALLREDUCE", "1");
  expect_steady({"a", "a", "b", "b"}, &Steps::sums);
}

}  // namespace
}  // namespace rueda::test
