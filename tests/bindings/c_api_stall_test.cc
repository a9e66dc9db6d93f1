// What rank 0 says of ranks that do not come: ranks as processes, because the reports are about another process.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

void tell_activity(void* context, char* text, size_t capacity) {
  std::snprintf(text, capacity, "%s", static_cast<const char*>(context));
}

/// Reports every log line to the test, as "<word> <line>", by what it is about.
void report_line(void*, int32_t, const char* line) {
  const std::string text(line);
  for (const auto& [part, word] : {std::pair("stall for", "stall"), std::pair("divergence for", "divergence"),
                                   std::pair("  rank 1 (", "answer")}) {
    if (text.find(part) != std::string::npos) rank_report(std::string(word) + " " + text);
  }
}

rueda_session* join_and_listen() {
  rueda_set_log_callback(report_line, nullptr);
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  expect_usable(session, "first");
  return session;
}

}  // namespace

TEST_CASE("rank: rank 1 comes late", "[.]") {
  rueda_session* session = join_and_listen();
  REQUIRE(rueda_set_activity_callback(session, tell_activity, const_cast<char*>("train.py:31 in load_batch")) ==
          RUEDA_OK);
  std::vector<float> values(10);
  if (rueda_rank(session) == 1) rank_await();  // this thread is stuck in the user's code
  CHECK(sum(session, values, "layer1") == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a stall is reported once the warning time has passed, with what the missing rank does instead") {
  RankProcesses ranks(
      {.size = 3, .body = "rank: rank 1 comes late", .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "stall"), Catch::Matchers::Contains("allreduce \"layer1\": submitted by rank 0") &&
                                          Catch::Matchers::Contains("not by rank 1"));
  CHECK_THAT(ranks.await(0, "answer"),
             Catch::Matchers::Contains("has nothing in flight; its last was allreduce \"first\"") &&
                 Catch::Matchers::Contains("it says: train.py:31 in load_batch"));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("rank: ranks submit different things", "[.]") {
  rueda_session* session = join_and_listen();
  std::vector<float> a(10);
  std::vector<float> b(10);
  const bool other = rueda_rank(session) == 1;
  const rueda_handle first = start_sum(session, a, other ? "theirs" : "ours");
  if (rueda_rank(session) == 0) rank_report("submitted");
  rank_await();
  const rueda_handle second = start_sum(session, b, other ? "ours" : "theirs");
  CHECK(finish(first).code == RUEDA_OK);
  CHECK(finish(second).code == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("ranks that submitted different things have diverged, which the report says") {
  RankProcesses ranks({.size = 2,
                       .body = "rank: ranks submit different things",
                       .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "divergence"), Catch::Matchers::Contains("each side waits for the other") &&
                                               Catch::Matchers::Contains("allreduce \"ours\"") &&
                                               Catch::Matchers::Contains("allreduce \"theirs\""));
  CHECK_THAT(ranks.await(0, "answer"), Catch::Matchers::Contains("allreduce \"theirs\" (f32, 10 elements), proposed"));
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "go on");
  for (const RankOutcome& outcome : ranks.finish()) CHECK(outcome.exit_code == 0);
}

TEST_CASE("rank: a stall ends the job", "[.]") {
  rueda_session* session = join_and_listen();
  std::vector<float> values(10);
  if (rueda_rank(session) == 1) {
    while (rueda_session_status(session) == RUEDA_OK) std::this_thread::yield();
  } else {
    const Ending ending = finish(start_sum(session, values, "never"));
    rank_report("ended " + std::string(rueda_error_name(ending.code)) + " " + ending.sentence);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a stall that lasts for the shutdown time ends the job with a sentence that names the ranks") {
  RankProcesses ranks(
      {.size = 2,
       .body = "rank: a stall ends the job",
       .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}, {"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "0.4"}}});
  CHECK_THAT(ranks.await(0, "ended"), Catch::Matchers::StartsWith("TIMEOUT") &&
                                          Catch::Matchers::Contains("RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.4 s)") &&
                                          Catch::Matchers::Contains("not by rank 1"));
  for (const RankOutcome& outcome : ranks.finish()) CHECK(outcome.exit_code == 0);
}

TEST_CASE("rank: rank 1 joins late", "[.]") {
  rueda_session* session = join_and_listen();
  if (rueda_rank(session) == 1) rank_await();
  CHECK(rueda_join(session, nullptr, nullptr) == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a join that waits is reported once the warning time has passed, with what the missing rank does") {
  RankProcesses ranks(
      {.size = 3, .body = "rank: rank 1 joins late", .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "stall"), Catch::Matchers::Contains("join: rank") &&
                                          Catch::Matchers::Contains("joined and wait") &&
                                          Catch::Matchers::Contains("for rank"));
  CHECK_THAT(ranks.await(0, "answer"), Catch::Matchers::Contains("its last was allreduce \"first\""));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) CHECK(outcome.exit_code == 0);
}

}  // namespace rueda::test
