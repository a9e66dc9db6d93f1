// Ranks as processes on several hosts, whose control frames travel through the leaders of hosts: who is told of a
// death.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

// Ten hosts, h0 to h9: the last is two levels below rank 0. h1 has three ranks, h9 two.
const std::vector<int> kHostOf = {0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9};

std::string host_of(int rank) { return "h" + std::to_string(kHostOf[static_cast<size_t>(rank)]); }

RankProcesses::Options job_of(const std::string& body, const std::string& peer_timeout = "60") {
  return {.size = static_cast<int>(kHostOf.size()),
          .body = body,
          .variables = {{"RUEDA_CONTROL_TREE", "1"}, {"RUEDA_PEER_TIMEOUT_SECONDS", peer_timeout}},
          .of_rank = [](int rank) {
            return RankProcesses::Variables{{"RUEDA_HOSTNAME", host_of(rank)}};
          }};
}

}  // namespace

TEST_CASE("rank: reduces in the tree until a peer dies", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(1000);
  int32_t code = RUEDA_OK;
  for (int step = 0; code == RUEDA_OK; ++step) {
    if (step == 5) rank_report("loaded");
    code = sum(session, values, step % 2 == 0 ? "even" : "odd");
  }
  rank_report(std::string("failed ") + rueda_error_name(code) + " " + rueda_last_error());
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("rank: waits in the tree for an operation that rank 1 never submits", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  REQUIRE(sum(session, values, "w") == RUEDA_OK);
  const rueda_handle handle = rueda_rank(session) == 1 ? 0 : start_sum(session, values, "never");
  rank_report("loaded");
  if (handle == 0) {
    rank_await();
  } else {
    const Ending ending = finish(handle);
    rank_report(std::string("failed ") + rueda_error_name(ending.code) + " " + ending.sentence);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// The last rank, two levels below rank 0 and no leader, is stuck in its own code.
TEST_CASE("rank: the last rank of the tree comes late", "[.]") {
  const auto report_line = [](void*, int32_t, const char* line) {
    const std::string text(line);
    if (text.find("stall for") != std::string::npos) rank_report("stall " + text);
    if (text.find("  rank 12 (") != std::string::npos) rank_report("answer " + text);
  };
  rueda_set_log_callback(report_line, nullptr);
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  for (int step = 0; step < 3; ++step) REQUIRE(sum(session, values, "layer1") == RUEDA_OK);
  if (rueda_rank(session) == rueda_size(session) - 1) rank_await();
  const int32_t code = sum(session, values, "layer1");
  INFO(rueda_last_error());
  CHECK(code == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

namespace {

void kill_and_expect(const std::string& body, int victim) {
  RankProcesses ranks(job_of(body));
  for (int rank = 0; rank < static_cast<int>(kHostOf.size()); ++rank) ranks.await(rank, "loaded");
  const std::string pid = "pid " + std::to_string(ranks.pid(victim));
  ranks.signal(victim, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (int rank = 0; rank < static_cast<int>(kHostOf.size()); ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
    if (rank == victim) continue;
    const std::string failed = outcome.report("failed");
    INFO("victim " << victim << ", rank " << rank << ": " << failed << outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(failed.rfind("PEER_LOST ", 0) == 0);
    CHECK(failed.find("rank " + std::to_string(victim) + " (host " + host_of(victim)) != std::string::npos);
    CHECK(failed.find(pid) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("kill -9 under load of any kind of node of the tree is named on every survivor of every host") {
  // Rank 0, a leader with others below, ranks that lead nobody, and a leader two levels down.
  for (const int victim : {0, 1, 3, 11, 12}) kill_and_expect("rank: reduces in the tree until a peer dies", victim);
}

TEST_CASE("a leader that is stopped for the limit is named on every host") {
  for (const int victim : {1, 10}) {
    RankProcesses ranks(job_of("rank: reduces in the tree until a peer dies", "4"));
    for (int rank = 0; rank < static_cast<int>(kHostOf.size()); ++rank) ranks.await(rank, "loaded");
    ranks.signal(victim, SIGSTOP);
    for (int rank = 0; rank < static_cast<int>(kHostOf.size()); ++rank) {
      if (rank == victim) continue;
      const std::string failed = ranks.await(rank, "failed");
      INFO("victim " << victim << ", rank " << rank << ": " << failed);
      CHECK(failed.rfind("PEER_LOST ", 0) == 0);
      CHECK(failed.find("rank " + std::to_string(victim) + " (host " + host_of(victim)) != std::string::npos);
      const bool cause = failed.find("stopped") != std::string::npos || failed.find("silent") != std::string::npos;
      CHECK(cause);
    }
    ranks.signal(victim, SIGKILL);
    ranks.finish();
  }
}

TEST_CASE("a stall names only the rank that is missing, and what it does, through the leaders between") {
  RankProcesses::Options options = job_of("rank: the last rank of the tree comes late");
  options.variables["RUEDA_STALL_CHECK_TIME_SECONDS"] = "4";
  RankProcesses ranks(options);
  CHECK_THAT(ranks.await(0, "stall"), Catch::Matchers::Contains("allreduce \"layer1\": submitted by rank") &&
                                          Catch::Matchers::Contains("not by rank 12 (host h9"));
  CHECK_THAT(ranks.await(0, "answer"),
             Catch::Matchers::Contains("has nothing in flight; its last was allreduce \"layer1\""));
  ranks.tell(12, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("kill -9 of the rank that all wait for is named on every survivor, though nothing of it is agreed") {
  kill_and_expect("rank: waits in the tree for an operation that rank 1 never submits", 1);
}

}  // namespace rueda::test
