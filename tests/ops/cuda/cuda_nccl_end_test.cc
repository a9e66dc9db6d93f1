// How communicators end when NCCL, or a peer in it, does not come through. GPUs and NCCL are stand-ins.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

/// Reports as soon as NCCL ends a communicator.
class EndWatch {
 public:
  EndWatch()
      : thread_([] {
          for (const core::Deadline deadline = patience(); standin_nccl().counts().finalizing == 0;
               std::this_thread::yield()) {
            if (deadline.passed()) return;
          }
          rank_report("finalizing");
        }) {}
  ~EndWatch() { thread_.join(); }
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  std::thread thread_;
};

/// How many threads of this process have the name.
int threads_called(const std::string& name) {
  int found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string line;
    std::getline(file, line);
    found += line == name ? 1 : 0;
  }
  return found;
}

TEST_CASE("rank: a sum by NCCL and the end of its communicator", "[.]") {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const char* const hangs = std::getenv("TEST_HANGS");
  {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 1000));
    expect_done(sum_on_gpu(session, memory, 1000, "sum", stream.get(), rank), "sum");
  }
  rank_report("enders " + std::to_string(threads_called("rueda-nccl-end")));
  if (hangs != nullptr) standin_nccl().hang(hangs);
  if (std::getenv("TEST_WAITS") != nullptr && rank != 1) rank_await();
  {
    const EndWatch watch;
    CHECK(rueda_shutdown(session) == RUEDA_OK);
  }
  rank_report("aborts " + std::to_string(standin_nccl().counts().aborts));
  rank_report("misuses " + std::to_string(standin_nccl().counts().misuses));
  standin_nccl().heal();
}

/// Three ranks, whose communicator ends for all of them together. Without the search for leaks, which cannot read the
/// threads of streams that never end.
RankProcesses start_ending(const std::string& rank_1_hangs, RankProcesses::Variables more = {}) {
  more.merge(RankProcesses::Variables{
      {"STANDIN_CUDA_DEVICES", "3"}, {"STANDIN_NCCL_END_TOGETHER", "1"}, {"ASAN_OPTIONS", "detect_leaks=0"}});
  return RankProcesses({.size = 3,
                        .body = "rank: a sum by NCCL and the end of its communicator",
                        .variables = more,
                        .of_rank = [rank_1_hangs](int rank) {
                          RankProcesses::Variables variables;
                          if (rank == 1 && !rank_1_hangs.empty()) variables["TEST_HANGS"] = rank_1_hangs;
                          return variables;
                        }});
}

TEST_CASE("ranks end their communicator together, without an abort") {
  RankProcesses ranks = start_ending("");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK((outcome.exit_code == 0 && outcome.report("aborts") == "0" && outcome.report("misuses") == "0"));
    CHECK(outcome.report("enders") == "1");
    CHECK_THAT(outcome.output, !Contains("NCCL has not"));
  }
}

/// Rank 1 is killed inside of ncclCommFinalize: before the others come there, or while they wait for it.
void expect_survivors(RankProcesses& ranks, const std::string& sentence) {
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].exit_code == 0);
    CHECK((outcomes[rank].report("aborts") == "1" && outcomes[rank].report("misuses") == "0"));
    CHECK_THAT(outcomes[rank].output,
               Contains("NCCL has not ended a communicator of 3 ranks within 2 s") && Contains(sentence));
  }
}

TEST_CASE("a rank that was killed while NCCL ended its communicator is named, and the others abort theirs and end") {
  RankProcesses ranks = start_ending("ncclCommFinalize", {{"TEST_WAITS", "1"}});
  ranks.await(1, "finalizing");
  ranks.signal(1, SIGKILL);
  for (const int rank : {0, 2}) ranks.tell(rank, "end");
  expect_survivors(ranks, "so it is aborted: the process of rank 1 has ended");
}

TEST_CASE("a rank that is killed while all others are in the end of its communicator holds nobody up") {
  RankProcesses ranks = start_ending("ncclCommFinalize");
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "finalizing");
  ranks.signal(1, SIGKILL);
  expect_survivors(ranks, "so it is aborted: ");  // on a slow machine the kill may come after the limit
}

TEST_CASE("a call of NCCL's that does not come back holds up no shutdown, and the others do not wait for that rank") {
  RankProcesses ranks = start_ending("ncclCommFinalize");
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{2}}) {
    INFO(outcomes[rank].output);
    CHECK((outcomes[rank].exit_code == 0 && outcomes[rank].report("misuses") == "0"));
    const std::string sentence = rank == 1 ? "NCCL has not come back from ncclCommFinalize within 7 s"
                                           : "NCCL has not ended a communicator of 3 ranks within 2 s";
    CHECK_THAT(outcomes[rank].output, Contains(sentence));
  }
}

TEST_CASE("rank: sums by NCCL behind the end of a set that NCCL does not come back from", "[.]") {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const GpuStream stream(rank);
  const auto& memory = *new GpuMemory<float>(numbers(rank, 1000));  // what is given up may still touch it
  expect_done(sum_on_gpu(session, memory, 1000, "of all", stream.get(), rank), "of all");
  const std::vector<int32_t> ranks = {0, 1};
  rueda_op_options options = on_stream("of the set", stream.get());
  expect_code(rueda_process_set_add(session, ranks.size(), ranks.data(), nullptr, &options.process_set), RUEDA_OK,
              "add");
  const GpuTensor tensor(memory.data(), 1000, rank);
  expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "of the set");
  standin_nccl().hang("ncclCommFinalize");
  expect_code(rueda_process_set_remove(session, options.process_set), RUEDA_OK, "remove");
  Ending ending;
  for (const core::Deadline deadline = patience(); ending.code == RUEDA_OK;) {
    expect(!deadline.passed(), "the sums go on");
    ending = test::finish(sum_on_gpu(session, memory, 1000, "next", stream.get(), rank));
  }
  rank_report(std::string("ended ") + rueda_error_name(ending.code) + " " + ending.sentence);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  rank_report("finalizing " + std::to_string(standin_nccl().counts().finalizing));
  rank_report("misuses " + std::to_string(standin_nccl().counts().misuses));
  standin_nccl().heal();
}

TEST_CASE("while NCCL does not come back from the end of a set, what needs NCCL fails and says so") {
  RankProcesses ranks({.size = 2,
                       .body = "rank: sums by NCCL behind the end of a set that NCCL does not come back from",
                       .variables = {{"ASAN_OPTIONS", "detect_leaks=0"}}});
  for (const int rank : {0, 1}) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("NCCL has not come back from ncclCommFinalize within 5 s"));
  }
  // A rank ends the set's communicator at the batch behind the removal. One that heard of the removal a batch later
  // than the other has not called NCCL for it when the epoch ends, and so has nothing to say of it.
  int left = 0;
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK((outcome.exit_code == 0 && outcome.report("misuses") == "0"));
    const bool called = outcome.report("finalizing") != "0";
    const char* const sentence = "NCCL has not come back from ncclCommFinalize within 5 s; its communicators";
    CHECK((outcome.output.find(sentence) != std::string::npos) == called);
    left += called ? 1 : 0;
  }
  CHECK(left > 0);
}

}  // namespace
}  // namespace rueda::test
