// What survivors see of a rank that dies while a batch is on GPUs, which stand-ins are.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/ops/cuda/gpu.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

/// The session of this rank process, by its environment.
rueda_session* join_by_environment() {
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  return session;
}

/// A sum of three pieces; rank 1's GPU never gets to the point where its input is there.
void stuck_sum(rueda_session* session, const GpuStream& stream, std::latch& never) {
  const int rank = rueda_rank(session);
  // Never freed: a GPU that is given up may still touch it.
  static const auto& memory = *new GpuMemory<float>(numbers(rank, 3'000'000));
  // LeakSanitizer does not take the address on the GPU for one.
  static const void* const on_host [[maybe_unused]] = gpu().in_kernel(memory.data());
  expect_done(sum_on_gpu(session, memory, 10, "first", stream.get(), rank), "first");
  if (rank == 1) gpu().launch(stream.get(), [&never] { never.wait(); });
  const int before = gpu().counts().copies;
  const rueda_handle handle = sum_on_gpu(session, memory, 3'000'000, "second", stream.get(), rank);
  // The test is about work that a GPU has: the sum's first copy has been given to it.
  for (const core::Deadline deadline = patience(); gpu().counts().copies == before; std::this_thread::yield()) {
    expect(!deadline.passed(), "the sum does not begin");
  }
  rank_report("enqueued");
  const Ending ending = finish(handle);
  rank_report(std::string("ended ") + rueda_error_name(ending.code) + " " + ending.sentence);
}

TEST_CASE("rank: sums on GPUs while another rank's GPU is stuck", "[.]") {
  gpu();
  rueda_session* const session = join_by_environment();
  static auto& never = *new std::latch(1);
  {
    const GpuStream stream(rueda_rank(session));
    stuck_sum(session, stream, never);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  never.count_down();
}

TEST_CASE("a rank that is killed while its GPU is stuck is named to the others, whose GPUs let go of the tensors") {
  RankProcesses ranks({.size = 3,
                       .body = "rank: sums on GPUs while another rank's GPU is stuck",
                       .variables = {{"STANDIN_CUDA_DEVICES", "3"}}});
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "enqueued");
  ranks.signal(1, SIGKILL);
  for (const int rank : {0, 2}) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("PEER_LOST") && Contains("rank 1") && Contains("\"second\""));
  }
  const std::vector<RankOutcome> outcomes = ranks.finish();
  CHECK(outcomes[0].exit_code == 0);
  CHECK(outcomes[2].exit_code == 0);
}

TEST_CASE("a GPU that does not finish after the end of the job is given up in time, and the sentence says so") {
  RankProcesses ranks({.size = 3,
                       .body = "rank: sums on GPUs while another rank's GPU is stuck",
                       .variables = {{"STANDIN_CUDA_DEVICES", "3"}}});
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "enqueued");
  ranks.signal(2, SIGKILL);
  CHECK_THAT(ranks.await(1, "ended"), Contains("PEER_LOST") && Contains("rank 2") &&
                                          Contains("device cuda number 1 has not finished") &&
                                          Contains("may still write to the tensors"));
  const std::vector<RankOutcome> outcomes = ranks.finish();
  INFO(outcomes[1].output);
  CHECK(outcomes[0].exit_code == 0);
  CHECK(outcomes[1].exit_code == 0);
}

}  // namespace
}  // namespace rueda::test
