// Processes that end without a shutdown, after CUDA has ended: its exit handler runs before Rueda's, because the first
// tensor comes after rueda_init. GPUs and NCCL are stand-ins.
#include <catch2/catch.hpp>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("rank: sums on GPUs and no shutdown", "[.]") {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const GpuStream stream(rank);
  const std::vector<int32_t> both = {0, 1};
  int32_t set = 0;
  expect_code(rueda_process_set_add(session, both.size(), both.data(), nullptr, &set), RUEDA_OK, "add");
  for (const int32_t each : {int32_t{RUEDA_GLOBAL_SET}, set}) {
    const GpuMemory<float> memory(numbers(rank, 100'000));
    const GpuTensor tensor(memory.data(), 100'000, rank);
    rueda_op_options options = on_stream("sum", stream.get());
    options.process_set = each;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "sum");
    expect_sums(memory.values(), 2, "sum");
  }
  expect_code(rueda_process_set_remove(session, set), RUEDA_OK, "remove");
  rank_report("by NCCL " + std::to_string(batches_by_nccl(session)));
}

TEST_CASE("ranks that end without a shutdown, when CUDA has ended already, are quick and say nothing") {
  const std::string nccl = GENERATE("1", "0");
  RankProcesses ranks({.size = 2,
                       .body = "rank: sums on GPUs and no shutdown",
                       .variables = {{"STANDIN_CUDA_ENDS_AT_EXIT", "1"},
                                     {"RUEDA_NCCL", nccl},
                                     // Behind CUDA's end nothing is freed, and no communicator of the stand-in ends.
                                     {"ASAN_OPTIONS", "detect_leaks=0"},
                                     {"TSAN_OPTIONS", "report_thread_leaks=0"}}});
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by NCCL") == (nccl == "1" ? "2" : "0"));
    CHECK_THAT(outcome.output, !Contains("rueda warning") && !Contains("rueda error") && !Contains("stand-in for "));
  }
}

}  // namespace
}  // namespace rueda::test
