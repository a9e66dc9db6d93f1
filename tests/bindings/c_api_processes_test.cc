// Ranks as processes: settings that differ, ranks that die under load, and what is left afterwards.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/leftovers.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = '|';
  }
  return text;
}

void report_code(const std::string& word, int32_t code, const std::string& sentence) {
  rank_report(word + " " + rueda_error_name(code) + " " + one_line(sentence));
}

// Lets ranks that have told how their init ended go on.
void let_go(RankProcesses& ranks, int count) {
  for (int rank = 0; rank < count; ++rank) ranks.await(rank, "init");
  for (int rank = 0; rank < count; ++rank) ranks.tell(rank, "go on");
}

// Checks that no process, descriptor or named file is left of a job, whatever happened to it.
class NothingLeft {
 public:
  NothingLeft() : before_(holdings()) {}
  ~NothingLeft() {
    for (const std::string& leak : leaks(before_, holdings())) FAIL_CHECK("left behind: " + leak);
    for (const std::string& file : named_files()) FAIL_CHECK("left behind: " + file);
  }
  NothingLeft(const NothingLeft&) = delete;
  NothingLeft& operator=(const NothingLeft&) = delete;

 private:
  Holdings before_;
};

void expect_clean(const RankOutcome& outcome) {
  INFO(outcome.output);
  CHECK(outcome.signal == 0);
  CHECK(outcome.exit_code == 0);
}

}  // namespace

// ---- Bodies of rank processes -----------------------------------------------------------------------------------

TEST_CASE("rank: joins and reduces and leaves", "[.]") {
  rueda_session* session = nullptr;
  const int32_t code = rueda_init(nullptr, &session);
  report_code("init", code, rueda_last_error());
  rank_await();  // rank 0 serves the store: nobody leaves before all have heard
  if (code != RUEDA_OK) return;
  expect_usable(session, "w");
  rank_report("place " + std::to_string(rueda_rank(session)) + "/" + std::to_string(rueda_local_size(session)));
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("rank: joins or ends at once", "[.]") {
  rueda_session* session = nullptr;
  const int32_t code = rueda_init(nullptr, &session);
  report_code("init", code, rueda_last_error());
  if (code != RUEDA_OK) return;
  expect_usable(session, "w");
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// Reduces small and large tensors until one fails, with others in flight, and reports how all of them ended and what a
// new one gets.
TEST_CASE("rank: reduces until a peer dies", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> small(10);
  std::vector<float> large(300000);
  Ending ending;
  for (int step = 0; ending.code == RUEDA_OK; ++step) {
    if (step == 10) rank_report("loaded");
    const rueda_handle first = start_sum(session, large, "large");
    const rueda_handle second = first == 0 ? 0 : start_sum(session, small, "small");
    if (second == 0) ending = {rueda_last_error_code(), rueda_last_error()};
    for (const rueda_handle handle : {first, second}) {
      if (handle == 0) continue;
      const Ending end = finish(handle);
      if (end.code != RUEDA_OK) ending = end;
    }
  }
  report_code("failed", ending.code, ending.sentence);
  const int32_t again = sum(session, small, "another");
  report_code("new", again, rueda_last_error());
  const int32_t status = rueda_session_status(session);
  report_code("status", status, rueda_last_error());
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// Waits for a rank that never submits, so that death finds an operation that is in no batch.
TEST_CASE("rank: waits for an operation that rank 1 never submits", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  const bool silent = rueda_rank(session) == 1;
  const rueda_handle handle = silent ? 0 : start_sum(session, values, "never");
  rank_report("waiting");
  if (silent) {
    rank_await();
  } else {
    const Ending ending = finish(handle);
    report_code("failed", ending.code, ending.sentence);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// With an operation in flight and its sockets open, leaves a child behind that touches everything it inherited.
TEST_CASE("rank: forks with an operation in flight", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  const rueda_handle handle = rueda_rank(session) == 0 ? start_sum(session, values, "later") : 0;
  if (rueda_rank(session) == 0) {
    const pid_t child = fork();
    if (child == 0) {
      const bool refused = rueda_wait(handle, 1) == RUEDA_INVALID_ARGUMENT && rueda_poll(handle) == -1 &&
                           rueda_abandon(handle, 0) == RUEDA_INVALID_ARGUMENT &&
                           rueda_release(handle) == RUEDA_INVALID_ARGUMENT && rueda_rank(session) == -1 &&
                           rueda_shutdown(session) == RUEDA_NOT_INITIALIZED;
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  rank_report("forked");
  rank_await();
  if (rueda_rank(session) == 0) {
    CHECK(finish(handle).code == RUEDA_OK);
  } else {
    CHECK(sum(session, values, "later") == RUEDA_OK);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// Ends while a child of its own lives on.
TEST_CASE("rank: leaves a child and dies", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  if (rueda_rank(session) == 1) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      for (;;) pause();
    }
    rank_report("child " + std::to_string(child));
    rank_await();
  }
  std::vector<float> values(10);
  const Ending ending = finish(start_sum(session, values, "never"));
  report_code("failed", ending.code, ending.sentence);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("rank: meets a limit", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  if (rueda_rank(session) == 0) {
    const Ending ending = finish(start_sum(session, values, "late"));
    report_code("ended", ending.code, ending.sentence);
  }
  if (rueda_rank(session) == 1) {
    rank_await();  // for rank 0's operation to have met its limit
    const Ending ending = finish(start_sum(session, values, "late"));
    report_code("ended", ending.code, ending.sentence);
  }
  expect_usable(session, "at the end");
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

// ---- The tests -----------------------------------------------------------------------------------------------------

TEST_CASE("processes started by hand meet through a store and leave nothing") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 3, .body = "rank: joins and reduces and leaves"});
  let_go(ranks, 3);
  int rank = 0;
  for (const RankOutcome& outcome : ranks.finish()) {
    expect_clean(outcome);
    CHECK(outcome.report("place") == std::to_string(rank++) + "/3");
  }
}

TEST_CASE("settings that must match and do not fail init on all ranks with who has what") {
  struct Case {
    const char* variable;
    const char* usual;
    const char* odd;
  };
  for (const Case& setting : {Case{"RUEDA_DETERMINISTIC", "0", "1"}, Case{"RUEDA_COMPRESSION", "none", "fp16"}}) {
    const NothingLeft nothing_left;
    RankProcesses ranks({.size = 3, .body = "rank: joins and reduces and leaves", .of_rank = [&](int rank) {
                           return RankProcesses::Variables{{setting.variable, rank == 1 ? setting.odd : setting.usual}};
                         }});
    let_go(ranks, 3);
    std::vector<std::string> sentences;
    for (const RankOutcome& outcome : ranks.finish()) {
      expect_clean(outcome);
      sentences.push_back(outcome.report("init"));
    }
    for (const std::string& sentence : sentences) {
      CHECK(sentence == sentences[0]);
      CHECK(sentence.rfind("MISMATCH ", 0) == 0);
      CHECK(sentence.find(std::string(setting.variable).substr(6)) != std::string::npos);
      CHECK(sentence.find(setting.odd) != std::string::npos);
    }
  }
}

TEST_CASE("a rank 0 that serves the store and ends after a failed init takes no reason with it") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 3, .body = "rank: joins or ends at once", .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_COMPRESSION", rank == 1 ? "fp16" : "none"}};
                       }});
  for (const RankOutcome& outcome : ranks.finish()) {
    expect_clean(outcome);
    CHECK(outcome.report("init").rfind("MISMATCH ", 0) == 0);
  }
}

TEST_CASE("operations run on any number of lanes") {
  for (const char* lanes : {"1", "9", "16"}) {
    RankProcesses ranks({.size = 2, .body = "rank: joins or ends at once", .variables = {{"RUEDA_NUM_LANES", lanes}}});
    for (const RankOutcome& outcome : ranks.finish()) {
      expect_clean(outcome);
      CHECK(outcome.report("init").rfind("OK", 0) == 0);
    }
  }
}

TEST_CASE("of a setting that is policy, rank 0's value holds for all") {
  RankProcesses ranks({.size = 2, .body = "rank: joins and reduces and leaves", .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_FUSION_THRESHOLD", rank == 0 ? "1MiB" : "2MiB"}};
                       }});
  let_go(ranks, 2);
  for (const RankOutcome& outcome : ranks.finish()) {
    expect_clean(outcome);
    CHECK(outcome.report("init").rfind("OK", 0) == 0);
  }
}

TEST_CASE("a process that never comes is named by those that wait for it") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 3,
                       .body = "rank: joins and reduces and leaves",
                       .variables = {{"RUEDA_INIT_TIMEOUT_SECONDS", "2"}},
                       .started = 2});
  let_go(ranks, 2);
  for (const RankOutcome& outcome : ranks.finish()) {
    expect_clean(outcome);
    INFO(outcome.report("init"));
    CHECK(outcome.report("init").rfind("TIMEOUT ", 0) == 0);
    CHECK(outcome.report("init").find("rank 2") != std::string::npos);
  }
}

TEST_CASE("kill -9 of any rank under load fails every survivor's operations with rank, host and pid") {
  constexpr int kRanks = 3;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  for (int victim = 0; victim < kRanks; ++victim) {
    const NothingLeft nothing_left;
    RankProcesses ranks({.size = kRanks, .body = "rank: reduces until a peer dies"});
    for (int rank = 0; rank < kRanks; ++rank) ranks.await(rank, "loaded");
    const std::string pid = std::to_string(ranks.pid(victim));
    ranks.signal(victim, SIGKILL);
    const std::vector<RankOutcome> outcomes = ranks.finish();
    for (int rank = 0; rank < kRanks; ++rank) {
      const RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
      if (rank == victim) {
        CHECK(outcome.signal == SIGKILL);
        continue;
      }
      expect_clean(outcome);
      for (const char* word : {"failed", "new", "status"}) {
        const std::string text = outcome.report(word);
        INFO("victim " << victim << ", rank " << rank << ", " << word << ": " << text);
        CHECK(text.rfind("PEER_LOST ", 0) == 0);
        CHECK(text.find("rank " + std::to_string(victim)) != std::string::npos);
        CHECK(text.find(host) != std::string::npos);
        CHECK(text.find(pid) != std::string::npos);
      }
    }
  }
}

TEST_CASE("kill -9 of a rank that others wait for fails operations that are in no batch yet") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 3, .body = "rank: waits for an operation that rank 1 never submits"});
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "waiting");
  ranks.signal(1, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const int rank : {0, 2}) {
    const RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
    expect_clean(outcome);
    INFO(outcome.report("failed"));
    CHECK(outcome.report("failed").rfind("PEER_LOST ", 0) == 0);
    CHECK(outcome.report("failed").find("rank 1") != std::string::npos);
  }
}

TEST_CASE("a child that was forked in flight can touch nothing of its parent's session") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 2, .body = "rank: forks with an operation in flight"});
  for (int rank = 0; rank < 2; ++rank) ranks.await(rank, "forked");
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "go on");
  for (const RankOutcome& outcome : ranks.finish()) expect_clean(outcome);
}

TEST_CASE("a child that lives on does not hide its parent's death, over sockets either") {
  RankProcesses ranks({.size = 2, .body = "rank: leaves a child and dies", .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_HOSTNAME", rank == 0 ? "a" : "b"}};
                       }});
  const pid_t child = static_cast<pid_t>(std::stol(ranks.await(1, "child")));
  ranks.signal(1, SIGKILL);
  const std::string failed = ranks.await(0, "failed");
  CHECK(failed.rfind("PEER_LOST ", 0) == 0);
  CHECK(kill(child, 0) == 0);
  kill(child, SIGKILL);
  ranks.finish();
}

TEST_CASE("a rank that is stopped for the limit counts as dead, one that goes on in time does not") {
  RankProcesses ranks(
      {.size = 3, .body = "rank: reduces until a peer dies", .variables = {{"RUEDA_PEER_TIMEOUT_SECONDS", "2"}}});
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "loaded");
  ranks.signal(2, SIGSTOP);
  ranks.signal(2, SIGCONT);
  ranks.signal(1, SIGSTOP);
  for (const int rank : {0, 2}) {
    const std::string failed = ranks.await(rank, "failed");
    INFO(failed);
    CHECK(failed.rfind("PEER_LOST ", 0) == 0);
    CHECK(failed.find("rank 1") != std::string::npos);
    CHECK(failed.find("stopped") != std::string::npos);
  }
  ranks.signal(1, SIGKILL);
  ranks.finish();
}

TEST_CASE("an operation that a rank does not submit in time fails on all and the job goes on") {
  const NothingLeft nothing_left;
  RankProcesses ranks({.size = 2, .body = "rank: meets a limit", .variables = {{"RUEDA_TIMEOUT_SECONDS", "2"}}});
  ranks.await(0, "ended");
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    expect_clean(outcome);
    INFO(outcome.report("ended"));
    CHECK(outcome.report("ended").rfind("TIMEOUT ", 0) == 0);
    CHECK(outcome.report("ended").find("late") != std::string::npos);
  }
}

}  // namespace rueda::test
