// A job at every port of which strangers knock: scanners, HTTP, TLS without the key, half hellos, slow ones.
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/leftovers.h"
#include "tests/support/rank_processes.h"
#include "tests/support/scale.h"
#include "tests/support/strangers.h"

namespace rueda::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kMostGrowthKib = 16 << 10;

/// What the ranks are to do next, as rank 0 was told.
enum class Word { kOn = 0, kNext = 1 };

bool was_told() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) == 1 && !rank_await().empty();
}

/// A step: ranks add up their numbers, and learn whether rank 0 wants to go on to the next part.
Word step(rueda_session* session, const rueda_op_options& options, bool next) {
  std::vector<float> values = {static_cast<float>(rueda_rank(session)), next ? 1.0F : 0.0F};
  const rueda_handle handle = start_sum(session, values, options);
  expect(handle != 0, std::string("a step was refused: ") + rueda_last_error());
  const Ending ending = finish(handle);
  expect_code(ending.code, RUEDA_OK, "a step: " + ending.sentence);
  expect(values[0] == 3, "a step gave " + std::to_string(values[0]));
  return values[1] > 0 ? Word::kNext : Word::kOn;
}

/// Steps until rank 0 is told a word.
void steps_until_told(rueda_session* session) {
  const bool leads = rueda_rank(session) == 0;
  while (step(session, named("w"), leads && was_told()) == Word::kOn) {
  }
}

/// Steps until this process holds no more descriptors than it did: strangers that have gone are noticed by and by.
void steps_until_as_before(rueda_session* session, size_t descriptors) {
  const core::Deadline deadline = patience();
  std::vector<float> more(1);
  do {
    expect(!deadline.passed(), std::to_string(holdings().descriptors) + " descriptors are open, " +
                                   std::to_string(descriptors) + " were before the strangers");
    more[0] = holdings().descriptors > descriptors ? 1 : 0;
    expect_code(sum(session, more, "more"), RUEDA_OK, "a step");
  } while (more[0] > 0);
}

/// With a lane of its own: the set makes new data connections.
void step_in_new_set(rueda_session* session) {
  const std::vector<int32_t> ranks = {0, 1, 2};
  int32_t set = 0;
  expect_code(rueda_process_set_add(session, ranks.size(), ranks.data(), nullptr, &set), RUEDA_OK, "a set");
  rueda_op_options options = named("late");
  options.process_set = set;
  step(session, options, false);
}

RankProcesses::Options on_three_hosts() {
  return {.size = kRanks,
          .body = "rank: goes on among strangers",
          .variables = {{"RUEDA_NETWORK_INTERFACES", "127.0.0.1"},
                        {"RUEDA_PEER_TIMEOUT_SECONDS", "60"},
                        {"RUEDA_INIT_TIMEOUT_SECONDS", "120"}},
          .of_rank = [](int rank) {
            return RankProcesses::Variables{{"RUEDA_HOSTNAME", "h" + std::to_string(rank)}};
          }};
}

void check_among_strangers(size_t count) {
  RankProcesses ranks(on_three_hosts());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.await(rank, "up");
    pids.push_back(ranks.pid(rank));
    REQUIRE(listening_ports(pids.back()).size() == (rank == 0 ? 2 : 1));  // rank 0 serves the store
  }
  std::optional<Strangers> strangers(pids);
  REQUIRE(strangers->reach(count / 2, patience()));
  ranks.tell(0, "connections of a late set");
  for (int rank = 0; rank < kRanks; ++rank) ranks.await(rank, "set");
  ranks.tell(0, "leave and come again");
  for (int rank = 0; rank < kRanks; ++rank) ranks.await(rank, "again");
  REQUIRE(strangers->reach(count, patience()));
  strangers.reset();
  ranks.tell(0, "the strangers have gone");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    const size_t growth = std::stoul(outcome.report("growth"));
    if (core::kThorough) CHECK(growth <= kMostGrowthKib);
  }
}

}  // namespace

TEST_CASE("rank: goes on among strangers", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  for (int i = 0; i < 100; ++i) step(session, named("w"), false);
  const Holdings before = holdings();
  rank_report("up");
  steps_until_told(session);
  rank_report("growth " + std::to_string(std::max(holdings().resident_kib, before.resident_kib) - before.resident_kib));
  step_in_new_set(session);
  rank_report("set");
  steps_until_told(session);
  REQUIRE(rueda_shutdown(session) == RUEDA_OK);
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  step(session, named("w"), false);
  rank_report("again");
  steps_until_told(session);
  steps_until_as_before(session, before.descriptors);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("hundreds of strangers at every port disturb no step, no new connection and no rank that joins late") {
  check_among_strangers(core::kThorough ? 800 : 300);
}

TEST_CASE("ten thousand strangers at every port disturb no step, no new connection and no late rank", "[.][long]") {
  check_among_strangers(40'000);  // at four ports
}

}  // namespace rueda::test
