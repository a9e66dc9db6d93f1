// What rank 0 says of ranks that do not come: ranks as processes, because the reports are about another process.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
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
  for (const auto& [part, word] : {std::pair(" is running: ", "running"), std::pair("stall for", "stall"),
                                   std::pair("divergence for", "divergence"), std::pair(" for no other rank", "nobody"),
                                   std::pair(" for rank 1 (host", "waits"), std::pair("  rank 1 (", "answer")}) {
    if (text.find(part) == std::string::npos) continue;
    return rank_report(std::string(word) + " " + text);
  }
}

rueda_session* join_and_listen() {
  rueda_set_log_callback(report_line, nullptr);
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  return session;
}

/// On a slow machine this operation stalls too, so a test waits for a report of its own operation.
rueda_session* join_and_meet() {
  rueda_session* session = join_and_listen();
  expect_usable(session, "first");
  return session;
}

}  // namespace

TEST_CASE("rank: rank 1 comes late", "[.]") {
  rueda_session* session = join_and_meet();
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
  CHECK_THAT(ranks.await(0, "stall", {"layer1", "not by rank 1 "}),
             Catch::Matchers::Contains("allreduce \"layer1\": submitted by rank 0") &&
                 Catch::Matchers::Contains("not by rank 1"));
  CHECK_THAT(ranks.await(0, "answer", {"its last was", "it says: "}),
             Catch::Matchers::Contains("has nothing in flight; its last was allreduce \"first\"") &&
                 Catch::Matchers::Contains("it says: train.py:31 in load_batch"));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("rank: ranks submit different things", "[.]") {
  rueda_session* session = join_and_meet();
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
  CHECK_THAT(ranks.await(0, "divergence", {"theirs"}), Catch::Matchers::Contains("each side waits for the other") &&
                                                           Catch::Matchers::Contains("allreduce \"ours\"") &&
                                                           Catch::Matchers::Contains("allreduce \"theirs\""));
  CHECK_THAT(ranks.await(0, "answer", {"theirs"}),
             Catch::Matchers::Contains("allreduce \"theirs\" (f32, 10 elements), proposed"));
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
  rueda_session* session = join_and_meet();
  if (rueda_rank(session) == 1) rank_await();
  CHECK(rueda_join(session, nullptr, nullptr) == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a join that waits is reported once the warning time has passed, with what the missing rank does") {
  RankProcesses ranks(
      {.size = 3, .body = "rank: rank 1 joins late", .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "stall", {"join"}), Catch::Matchers::Contains("join: rank") &&
                                                    Catch::Matchers::Contains("joined and wait") &&
                                                    Catch::Matchers::Contains("for rank"));
  CHECK_THAT(ranks.await(0, "answer", {"its last"}), Catch::Matchers::Contains("its last was allreduce \"first\""));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) CHECK(outcome.exit_code == 0);
}

namespace {

/// On rank 1 the lane's thread is stuck here until the test goes on.
void* allocate_late(void* context, size_t bytes, int32_t, int32_t, void*) {
  if (rueda_rank(static_cast<rueda_session*>(context)) == 1) rank_await();
  static std::array<float, 10> place;  // of the one operation of this process
  return bytes == sizeof place ? place.data() : nullptr;
}

/// A sum whose output the callback above is asked for.
Ending sum_allocated_late(rueda_session* session, int32_t set = RUEDA_GLOBAL_SET) {
  std::vector<float> values(10);
  const int64_t shape[] = {10};
  rueda_tensor input{};
  input.struct_size = sizeof input;
  input.data = values.data();
  input.dtype = RUEDA_F32;
  input.dimensions = 1;
  input.shape = shape;
  rueda_tensor output = input;
  output.data = nullptr;
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = "stuck";
  options.process_set = set;
  options.allocate = allocate_late;
  options.allocate_context = session;
  rueda_handle handle = 0;
  REQUIRE(rueda_allreduce_async(session, &input, &output, RUEDA_SUM, &options, &handle) == RUEDA_OK);
  return finish(handle);
}

}  // namespace

TEST_CASE("rank: rank 1 is stuck in its lane", "[.]") {
  rueda_session* session = join_and_listen();
  const Ending ending = sum_allocated_late(session);
  if (ending.code != RUEDA_OK) rank_report("ended " + ending.sentence);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a batch that runs and does not end is reported, with who waits for whom and who waits for nobody") {
  RankProcesses ranks({.size = 3,
                       .body = "rank: rank 1 is stuck in its lane",
                       .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "running", {"stuck"}),
             Catch::Matchers::Contains("allreduce \"stuck\", by shm_one_shot, is running"));
  CHECK_THAT(ranks.await(0, "nobody"), Catch::Matchers::Contains("  rank 1 (host"));
  CHECK_THAT(ranks.await(0, "waits"), Catch::Matchers::Contains("  rank 0 (host"));
  CHECK_THAT(ranks.await(0, "answer", {"stuck"}),
             Catch::Matchers::Contains("has 1 in flight: allreduce \"stuck\"") && Catch::Matchers::Contains("started"));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("the sentence of a batch that ran for too long names the rank that it waited for") {
  RankProcesses ranks(
      {.size = 3, .body = "rank: rank 1 is stuck in its lane", .variables = {{"RUEDA_TIMEOUT_SECONDS", "3"}}});
  for (const int rank : {0, 2}) {
    CHECK_THAT(ranks.await(rank, "ended"),
               Catch::Matchers::Contains("ran longer than RUEDA_TIMEOUT_SECONDS (3 s); it waited for rank 1 (host"));
  }
  ranks.tell(1, "go on");
  static_cast<void>(ranks.finish());
}

TEST_CASE("over sockets too the sentence of a batch that ran for too long names the rank that it waited for") {
  RankProcesses ranks({.size = 2,
                       .body = "rank: rank 1 is stuck in its lane",
                       .variables = {{"RUEDA_TIMEOUT_SECONDS", "3"}},
                       .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_HOSTNAME", rank == 0 ? "a" : "b"}};
                       }});
  CHECK_THAT(ranks.await(0, "ended"), Catch::Matchers::Contains("; it waited for rank 1 (host b, pid"));
  ranks.tell(1, "go on");
  static_cast<void>(ranks.finish());
}

TEST_CASE("rank: rank 1 is stuck in the lane of a set without rank 0", "[.]") {
  rueda_session* session = join_and_listen();
  const int32_t ranks[] = {1, 2};
  int32_t set = -1;
  REQUIRE(rueda_process_set_add(session, 2, ranks, "pair", &set) == RUEDA_OK);
  if (rueda_rank(session) != 0) CHECK(sum_allocated_late(session, set).code == RUEDA_OK);
  std::vector<float> values(10);
  CHECK(sum(session, values, "after") == RUEDA_OK);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a batch of a set that rank 0 is not a member of is reported by it with the set's name") {
  RankProcesses ranks({.size = 3,
                       .body = "rank: rank 1 is stuck in the lane of a set without rank 0",
                       .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "running", {"stuck"}),
             Catch::Matchers::Contains(
                 "allreduce \"stuck\" of process set \"pair\" (ranks 1-2), by shm_one_shot, is running"));
  CHECK_THAT(ranks.await(0, "waits"), Catch::Matchers::Contains("  rank 2 (host"));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) CHECK(outcome.exit_code == 0);
}

}  // namespace rueda::test
