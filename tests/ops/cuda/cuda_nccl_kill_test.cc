// What survivors see of a rank that dies while NCCL is at work. GPUs and NCCL are stand-ins.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

rueda_session* join_with_nccl() {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  return session;
}

/// Where the job is when rank 1 dies.
std::string place() { return std::getenv("TEST_PLACE"); }

void await_making() {
  for (const core::Deadline deadline = patience(); standin_nccl().counts().made == 0; std::this_thread::yield()) {
    expect(!deadline.passed(), "no communicator is made");
  }
}

void await_held_call() {
  for (const core::Deadline deadline = patience(); standin_nccl().counts().held == 0; std::this_thread::yield()) {
    expect(!deadline.passed(), "no call of NCCL's is held");
  }
}

/// Sums of which the last one does not end, because rank 1's GPU or NCCL is stuck.
void sums_until_stuck(rueda_session* session, std::latch& never) {
  const int rank = rueda_rank(session);
  const GpuStream stream(rank);
  // Never freed: what is given up may still touch it.
  static const auto& memory = *new GpuMemory<float>(numbers(rank, 100'000));
  static const void* const on_host [[maybe_unused]] = gpu().in_kernel(memory.data());
  if (place() == "making" && rank == 1) standin_nccl().hang("ncclCommInitRankConfig");
  if (place() == "hanging abort" && rank == 0) standin_nccl().hang("ncclCommAbort");
  const bool holds_group = place() == "group" && rank == 0;
  const bool is_first = place() == "making" || place() == "first kernel";
  if (!is_first) expect_done(sum_on_gpu(session, memory, 10, "first", stream.get(), rank), "first");
  if (place() != "making" && rank == 1) gpu().launch(stream.get(), [&never] { never.wait(); });
  if (holds_group) standin_nccl().hang("ncclGroupEnd");
  const rueda_handle handle = sum_on_gpu(session, memory, 100'000, "stuck", stream.get(), rank);
  if (place() == "making") {
    await_making();
  } else if (holds_group) {
    await_held_call();
  } else {
    expect_code(rueda_wait_stream(handle, stream.get(), -1.0), RUEDA_OK, "launched");
  }
  if (place() == "link" && rank == 0) standin_nccl().fail("state", 1, cuda::NcclResult::kRemoteError);
  if (place() == "broken and dead" && rank != 1) {
    const int before = standin_nccl().counts().failures;
    standin_nccl().fail("state", 1, cuda::NcclResult::kRemoteError);
    for (const core::Deadline deadline = patience(); standin_nccl().counts().failures == before;
         std::this_thread::yield()) {
      expect(!deadline.passed(), "nobody asks NCCL");
    }
  }
  if (place() == "making") rank_report("loads " + std::to_string(gpu().counts().loads));
  rank_report("stuck");
  if (holds_group) {
    rank_await();
    standin_nccl().heal();
  }
  const Ending ending = test::finish(handle);
  rank_report(std::string("ended ") + rueda_error_name(ending.code) + " " + ending.sentence);
}

/// A later job of two ranks in this process, of which rank 0 has the GPU that NCCL has not come back from.
void sum_on_lost_gpu() {
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    for (const char* name : {"one", "two"}) {
      const GpuMemory<float> memory(numbers(rank, 100));
      expect_done(sum_on_gpu(session, memory, 100, name, stream.get(), rank), name);
      expect_sums(memory.values(), 2, name);
    }
    if (rank == 0) rank_report("later " + std::to_string(batches_by_nccl(session)));
  });
}

TEST_CASE("rank: sums by NCCL of which the last is stuck", "[.]") {
  rueda_session* const session = join_with_nccl();
  static auto& never = *new std::latch(1);
  sums_until_stuck(session, never);
  const bool is_lost = place() == "hanging abort" && rueda_rank(session) == 0;
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  if (is_lost) sum_on_lost_gpu();
  rank_report("aborts " + std::to_string(standin_nccl().counts().aborts));
  rank_report("misuses " + std::to_string(standin_nccl().counts().misuses));
  never.count_down();
  standin_nccl().heal();
}

/// Without the search for leaks, which cannot read the threads of streams that never end.
RankProcesses start_stuck(const std::string& where) {
  return RankProcesses(
      {.size = 3,
       .body = "rank: sums by NCCL of which the last is stuck",
       .variables = {{"STANDIN_CUDA_DEVICES", "3"}, {"TEST_PLACE", where}, {"ASAN_OPTIONS", "detect_leaks=0"}}});
}

TEST_CASE(
    "a rank that is killed while NCCL's kernels wait for it, or its communicator, is named, and NCCL is aborted") {
  const std::string where = GENERATE("making", "first kernel", "kernel");
  RankProcesses ranks = start_stuck(where);
  // Kernels are there before the first communicator is: to load one may wait for what another communicator runs.
  if (where == "making" && RUEDA_TEST_KERNELS != 0) CHECK(ranks.await(0, "loads") != "0");
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "stuck");
  ranks.signal(1, SIGKILL);
  for (const int rank : {0, 2}) {
    INFO(where);
    const std::string ended = ranks.await(rank, "ended");
    CHECK_THAT(ended, Contains("PEER_LOST") && Contains("rank 1") && Contains("\"stuck\""));
    CHECK_THAT(ended, !Contains("may still write"));
  }
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].exit_code == 0);
    CHECK(outcomes[rank].report("aborts") == "1");
    CHECK(outcomes[rank].report("misuses") == "0");
  }
}

/// Rank 2 has heard of the death and made its own abort before rank 0's call goes on.
TEST_CASE("a death while a rank is in a call of NCCL's is raised, and the abort comes after the call") {
  RankProcesses ranks = start_stuck("group");
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "stuck");
  ranks.signal(1, SIGKILL);
  CHECK(ranks.await(2, "aborts") == "1");
  ranks.tell(0, "go on");
  CHECK_THAT(ranks.await(0, "ended"), Contains("PEER_LOST") && Contains("rank 1") && Contains("\"stuck\""));
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].exit_code == 0);
    CHECK((outcomes[rank].report("aborts") == "1" && outcomes[rank].report("misuses") == "0"));
  }
}

TEST_CASE("a link that NCCL finds broken ends the job, though all ranks live and the kernels wait") {
  RankProcesses ranks = start_stuck("link");
  for (const int rank : {0, 2}) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("NCCL 2.28.9, in a kernel: ") && !Contains("may still write"));
  }
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].exit_code == 0);
    CHECK(outcomes[rank].report("misuses") == "0");
  }
}

TEST_CASE("a death that NCCL tells of first, without a name, is raised with the rank's name") {
  RankProcesses ranks = start_stuck("broken and dead");
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "stuck");
  ranks.signal(1, SIGKILL);
  for (const int rank : {0, 2}) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("PEER_LOST") && Contains("rank 1") && !Contains("in a kernel"));
  }
  const std::vector<RankOutcome> outcomes = ranks.finish();
  CHECK((outcomes[0].exit_code == 0 && outcomes[2].exit_code == 0));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("an abort that does not come back is given up, a sentence says so, and later jobs do without NCCL there") {
  RankProcesses ranks = start_stuck("hanging abort");
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "stuck");
  ranks.signal(1, SIGKILL);
  CHECK_THAT(ranks.await(0, "ended"), Contains("PEER_LOST") && Contains("may still write to the tensors"));
  CHECK_THAT(ranks.await(2, "ended"), Contains("PEER_LOST") && !Contains("may still write"));
  const std::vector<RankOutcome> outcomes = ranks.finish();
  INFO(outcomes[0].output);
  CHECK(outcomes[0].exit_code == 0);
  CHECK_THAT(outcomes[0].output, Contains("NCCL has not come back from ncclCommAbort within 5 s"));
  CHECK((outcomes[0].report("later") == "0" && outcomes[0].report("misuses") == "0"));
  CHECK(count_of(outcomes[0].output, "NCCL has not come back from a call on GPU 0, and is not used on it") == 1);
}

}  // namespace
}  // namespace rueda::test
