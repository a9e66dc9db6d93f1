// The signal that has the flight record dumped, where the user names one.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Disposition = void (*)(int);

Disposition disposition_of(int signal) {
  struct sigaction known {};
  REQUIRE(::sigaction(signal, nullptr, &known) == 0);
  return known.sa_handler;
}

void report_record(void*, int32_t, const char* line) {
  const std::string text(line);
  if (text.find("flight record") != std::string::npos) rank_report("record " + text);
  if (text.find("RUEDA_DUMP_SIGNAL") != std::string::npos) rank_report("refused " + text);
}

void own_handler(int) {}

rueda_session* join_with_log() {
  rueda_set_log_callback(report_record, nullptr);
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  expect_usable(session, "first");
  return session;
}

}  // namespace

TEST_CASE("rank: is stuck outside the library", "[.]") {
  rueda_session* session = join_with_log();
  rank_report("up");
  static_cast<void>(rank_await());
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  CHECK(disposition_of(SIGUSR2) == SIG_DFL);
}

TEST_CASE("on the signal that was named a rank dumps its flight record, and goes on") {
  const TemporaryFolder folder;
  RankProcesses ranks(
      {.size = 2,
       .body = "rank: is stuck outside the library",
       .variables = {{"RUEDA_DUMP_SIGNAL", "SIGUSR2"}, {"RUEDA_DUMP_FILE", folder.file("{rank}.json")}}});
  for (int rank = 0; rank < 2; ++rank) static_cast<void>(ranks.await(rank, "up"));
  ranks.signal(1, SIGUSR2);
  CHECK_THAT(ranks.await(1, "record"), Catch::Matchers::Contains(folder.file("1.json")));
  std::ifstream file(folder.file("1.json"));
  const auto dump = nlohmann::ordered_json::parse(file);
  CHECK(dump.at("operations").back().at("name") == "first");
  CHECK_FALSE(std::filesystem::exists(folder.file("0.json")));
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("without a file the record goes to the log, and several sessions of a process share the signal") {
  REQUIRE(::setenv("RUEDA_DUMP_SIGNAL", "USR1", 1) == 0);
  std::atomic<int> records{0};
  rueda_set_log_callback(
      [](void* count, int32_t, const char* line) {
        if (std::string(line).find("flight record of") != std::string::npos) {
          ++*static_cast<std::atomic<int>*>(count);
          static_cast<std::atomic<int>*>(count)->notify_all();
        }
      },
      &records);
  run_ranks(2, [&](rueda_session* session, int rank) {
    expect_usable(session, "both are there");
    if (rank == 0) {
      expect(disposition_of(SIGUSR1) != SIG_DFL, "there is no handler");
      ::kill(::getpid(), SIGUSR1);
      for (int seen = records.load(); seen < 2; seen = records.load()) records.wait(seen);
    }
    expect_usable(session, "both have dumped");
  });
  rueda_set_log_callback(nullptr, nullptr);
  REQUIRE(::unsetenv("RUEDA_DUMP_SIGNAL") == 0);
  CHECK(records == 2);
  CHECK(disposition_of(SIGUSR1) == SIG_DFL);
}

TEST_CASE("no handler is installed where no signal was named") {
  run_ranks(2, [&](rueda_session* session, int) {
    expect_usable(session, "usable");
    for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT}) {
      const Disposition found = disposition_of(signal);  // a job in the background ignores some
      expect(found == SIG_DFL || found == SIG_IGN, "signal " + std::to_string(signal) + " has a handler");
    }
  });
}

TEST_CASE("rank: handles SIGUSR2 itself", "[.]") {
  REQUIRE(::signal(SIGUSR2, own_handler) != SIG_ERR);
  rueda_session* session = join_with_log();
  CHECK(disposition_of(SIGUSR2) == own_handler);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  CHECK(disposition_of(SIGUSR2) == own_handler);
}

TEST_CASE("a handler of the program's own is left alone, which a warning says") {
  RankProcesses ranks(
      {.size = 1, .body = "rank: handles SIGUSR2 itself", .variables = {{"RUEDA_DUMP_SIGNAL", "SIGUSR2"}}});
  CHECK_THAT(ranks.await(0, "refused"), Catch::Matchers::Contains("the program handles this signal"));
  CHECK(ranks.finish().front().exit_code == 0);
}

}  // namespace rueda::test
