// The buffer that tensors are packed in is registered with NCCL on all ranks or on none. GPUs and NCCL are stand-ins.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/ops/cuda/gpu_group.h"
#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

void sum_packed(rueda_session* session, int rank, int size, int32_t set) {
  const GpuStream stream(rank);
  GpuGroup group(rank, lengths(50));
  rueda_op_options options = on_stream("packed", stream.get());
  options.process_set = set;
  group.reduce(session, RUEDA_SUM, options);
  for (const auto& each : group.memory()) expect_sums(each->values(), size, "packed");
}

/// A set of ranks 0 and 1.
int32_t make_pair(rueda_session* session) {
  const std::vector<int32_t> ranks = {0, 1};
  int32_t set = 0;
  expect_code(rueda_process_set_add(session, ranks.size(), ranks.data(), nullptr, &set), RUEDA_OK, "add");
  return set;
}

TEST_CASE("the buffer is memory of NCCL's, registered once for each communicator, and until that ends") {
  if (RUEDA_TEST_KERNELS == 0) return;
  StandinNccl& library = use_nccl();
  const NcclCounts before = library.counts();
  std::barrier all_are_here(3);
  run_ranks(3, [&](rueda_session* session, int rank) {
    const auto expect_registered = [&](int registrations, int registered) {
      all_are_here.arrive_and_wait();
      const NcclCounts now = library.counts();
      expect(now.registrations - before.registrations == registrations && now.registered == registered,
             std::to_string(now.registrations - before.registrations) + " registrations, of them " +
                 std::to_string(now.registered) + " now; expected " + std::to_string(registrations));
      expect(now.memory == (registered == 0 ? 0 : 3), "the buffers are not NCCL's memory");
      all_are_here.arrive_and_wait();
    };
    const GpuStream stream(rank);
    const GpuMemory<float> single(numbers(rank, 1000));
    expect_done(sum_on_gpu(session, single, 1000, "single", stream.get(), rank), "single");
    expect_registered(0, 0);  // no buffer yet
    for (int round = 0; round < 3; ++round) sum_packed(session, rank, 3, 0);
    expect_registered(3, 3);
    int32_t set = 0;
    if (rank < 2) set = make_pair(session);
    for (int round = 0; round < 3 && rank < 2; ++round) sum_packed(session, rank, 2, set);
    expect_registered(5, 5);
    if (rank < 2) expect_code(rueda_process_set_remove(session, set), RUEDA_OK, "remove");
    sum_packed(session, rank, 3, 0);
  });
  const NcclCounts after = library.counts();
  CHECK(after.registrations == before.registrations + 5);
  CHECK((after.registered == 0 && after.memory == 0 && after.alive == 0));
  CHECK((after.mixed == 0 && after.misuses == before.misuses && after.aborts == before.aborts));
}

TEST_CASE("without memory of NCCL's the buffer is a plain one, and is registered all the same") {
  if (RUEDA_TEST_KERNELS == 0) return;
  StandinNccl& library = use_nccl();
  const NcclCounts before = library.counts();
  library.fail("ncclMemAlloc", 1, cuda::NcclResult::kUnhandledCudaError);
  run_ranks(2, [&](rueda_session* session, int rank) { sum_packed(session, rank, 2, 0); });
  library.heal();
  const NcclCounts after = library.counts();
  CHECK((after.registrations == before.registrations + 2 && after.registered == 0 && after.misuses == before.misuses));
}

TEST_CASE("rank: packed sums with NCCL's memory for them", "[.]") {
  gpu();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  for (int round = 0; round < 3; ++round) sum_packed(session, rueda_rank(session), 3, 0);
  rank_report("by NCCL " + std::to_string(batches_by_nccl(session)));
  rank_report("registered " + std::to_string(standin_nccl().counts().registered));
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  const NcclCounts after = standin_nccl().counts();
  rank_report("left " + std::to_string(after.registered + after.mixed + after.misuses + after.memory + after.alive));
}

/// Three ranks, of which rank 1 has the variables. Without the search for leaks, which cannot read the threads of
/// streams that never end.
void expect_registered(const RankProcesses::Variables& of_rank_1, const std::string& registered,
                       const std::string& sentence) {
  RankProcesses ranks({.size = 3,
                       .body = "rank: packed sums with NCCL's memory for them",
                       .variables = {{"RUEDA_LOG_LEVEL", "info"},
                                     {"STANDIN_CUDA_DEVICES", "3"},
                                     {"RUEDA_NCCL_LIBRARY", RUEDA_TEST_NCCL},
                                     {"ASAN_OPTIONS", "detect_leaks=0"}},
                       .of_rank = [&](int rank) { return rank == 1 ? of_rank_1 : RankProcesses::Variables{}; }});
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by") == "NCCL 3");
    CHECK(outcome.report("registered") == registered);
    CHECK(outcome.report("left") == "0");
    CHECK_THAT(outcome.output, Contains(sentence));
  }
}

TEST_CASE("if NCCL of one rank registers no memory, no rank's is registered, and each says whose does not") {
  if (RUEDA_TEST_KERNELS == 0) return;
  expect_registered({}, "1", "the buffer that tensors on GPUs are packed in is registered with NCCL (told once)");
  const std::string why_not = "is not registered with NCCL: NCCL of rank 1 ";
  expect_registered({{"STANDIN_NCCL_REFUSE_REGISTER", "1"}}, "0", why_not + "refuses it");
  expect_registered({{"STANDIN_NCCL_REFUSE_REGISTER", "2"}}, "0", why_not + "refuses it");
  expect_registered({{"RUEDA_NCCL_LIBRARY", RUEDA_TEST_OLD_NCCL}}, "0", why_not + "has no ncclCommRegister");
}

}  // namespace
}  // namespace rueda::test
