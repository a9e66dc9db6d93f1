// 200 overlapping sets, each rank in an order of its own, one rank stopped: what shares neither it nor a lane that it
// blocks goes on.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/sim/random.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

constexpr int kRanksToStop = 4;
constexpr int kVictim = 2;
constexpr size_t kSets = 200;
constexpr size_t kLanes = 4;
constexpr int kRounds = 3;
constexpr size_t kLarge = size_t{8} << 20;  ///< elements: the victim is stopped while they move
/// In this set, whose lane is then blocked, the victim is stopped in the middle of a batch.
constexpr int32_t kBlocked = 5;

/// Set i + 1. They are made in this order, and set n is bound to lane n mod kLanes.
const std::vector<std::vector<int32_t>>& all_sets() {
  static const std::vector<std::vector<int32_t>> sets = [] {
    sim::Random random(42);
    std::vector<int32_t> all(kRanksToStop);
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::vector<int32_t>> made(kSets);
    for (auto& ranks : made) {
      random.shuffle(all);
      ranks.assign(all.begin(), all.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(all.size())));
      std::sort(ranks.begin(), ranks.end());
    }
    made[kBlocked - 1] = {0, 1, 2, 3};
    return made;
  }();
  return sets;
}

bool has(int32_t set, int rank) {
  const auto& ranks = all_sets()[static_cast<size_t>(set) - 1];
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool on_blocked_lane(int32_t set) { return static_cast<size_t>(set) % kLanes == kBlocked % kLanes; }

struct InFlight {
  int32_t set;
  std::vector<float> values;
  rueda_handle handle;
};

/// Sums of the rank's sets, in an order of its own.
class Sums {
 public:
  explicit Sums(rueda_session* session)
      : session_(session), rank_(static_cast<uint32_t>(rueda_rank(session))), random_(77 + rank_) {}

  /// One after the other, so that each has its lane.
  void make_sets() {
    for (int32_t set = 1; set <= static_cast<int32_t>(kSets); ++set) {
      const auto& ranks = all_sets()[static_cast<size_t>(set) - 1];
      const std::string name = "set " + std::to_string(set);
      if (has(set, static_cast<int>(rank_))) {
        expect_code(rueda_process_set_add(session_, ranks.size(), ranks.data(), name.c_str(), &numbers_[set]), RUEDA_OK,
                    name);
      }
      expect_code(rueda_barrier(session_, nullptr), RUEDA_OK, "barrier");
    }
  }
  int32_t number_of(int32_t set) const { return numbers_.at(set); }

  template <typename Choose>
  std::vector<InFlight> start(Choose chosen) {
    std::vector<int32_t> sets;
    for (int32_t set = 1; set <= static_cast<int32_t>(kSets); ++set) {
      if (has(set, static_cast<int>(rank_)) && chosen(set)) sets.push_back(set);
    }
    random_.shuffle(sets);
    std::vector<InFlight> all;
    all.reserve(sets.size());
    for (const int32_t set : sets) {
      all.push_back({set, std::vector<float>(1 + static_cast<size_t>(set) * 13, static_cast<float>(rank_)), 0});
      rueda_op_options options = named(nullptr);
      options.process_set = number_of(set);
      all.back().handle = start_sum(session_, all.back().values, options);
      expect(all.back().handle != 0, rueda_last_error());
    }
    return all;
  }

  void finish_all(std::vector<InFlight>& all) {
    random_.shuffle(all);
    for (InFlight& one : all) {
      const Ending ending = finish(one.handle);
      const std::string what = "set " + std::to_string(one.set) + ": ";
      expect(ending.code == RUEDA_OK, what + ending.sentence);
      const auto& ranks = all_sets()[static_cast<size_t>(one.set) - 1];
      const auto sum = static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
      expect(one.values.front() == sum && one.values.back() == sum, what + std::to_string(one.values.front()));
    }
  }

  template <typename Choose>
  void run(Choose chosen) {
    std::vector<InFlight> all = start(chosen);
    finish_all(all);
  }

 private:
  rueda_session* const session_;
  const uint32_t rank_;
  sim::Random random_;
  std::map<int32_t, int32_t> numbers_;  ///< what this rank calls its sets
};

/// A sum of many elements in the set whose lane shall be blocked.
rueda_handle start_large(rueda_session* session, const Sums& sums, std::vector<float>& values) {
  values.assign(kLarge, 1);
  rueda_op_options options = named("large");
  options.process_set = sums.number_of(kBlocked);
  return start_sum(session, values, options);
}

void finish_large(rueda_handle handle, const std::vector<float>& values) {
  const Ending ending = finish(handle);
  expect(ending.code == RUEDA_OK && values.front() == kRanksToStop && values.back() == kRanksToStop,
         "large: " + ending.sentence);
}

/// How many batches this rank has agreed on.
size_t batches(rueda_session* session) {
  std::string text(1 << 16, '\0');
  size_t bytes = 0;
  expect_code(rueda_stats(session, text.data(), text.size(), &bytes), RUEDA_OK, "stats");
  const size_t at = text.find("\"batches\":");
  expect(at != std::string::npos, text);
  return std::stoul(text.substr(at + 10));
}

}  // namespace

TEST_CASE("rank: sums in 200 sets and is stopped as it is told", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  const int rank = rueda_rank(session);
  Sums sums(session);
  sums.make_sets();
  sums.run([](int32_t) { return true; });
  expect_usable(session, "all are here");
  const bool in_a_batch = rank_await() == "in a batch";
  std::vector<float> large;
  if (rank == kVictim) {
    const size_t before = batches(session);
    const rueda_handle handle = in_a_batch ? start_large(session, sums, large) : 0;
    while (in_a_batch && batches(session) == before) {  // until its lane has got the batch
    }
    rank_report("stops");
    raise(SIGSTOP);
    if (in_a_batch) finish_large(handle, large);
    sums.run([](int32_t set) { return has(set, kVictim); });
  } else {
    const rueda_handle handle = in_a_batch ? start_large(session, sums, large) : 0;
    rank_await();  // the victim has been stopped
    const auto stuck = [in_a_batch](int32_t set) { return has(set, kVictim) || (in_a_batch && on_blocked_lane(set)); };
    std::vector<InFlight> waiting = sums.start(stuck);
    for (int round = 0; round < kRounds; ++round) sums.run([&](int32_t set) { return !stuck(set); });
    rank_report("went on");
    if (in_a_batch) finish_large(handle, large);
    sums.finish_all(waiting);
  }
  expect_usable(session, "at the end");
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("200 random overlapping sets, one rank stopped: those that share neither it nor a blocked lane go on") {
  const std::string when = GENERATE("before it submits anything", "in a batch");
  RankProcesses ranks(
      {.size = kRanksToStop,
       .body = "rank: sums in 200 sets and is stopped as it is told",
       .variables = {{"RUEDA_PEER_TIMEOUT_SECONDS", "0"}, {"RUEDA_NUM_LANES", std::to_string(kLanes)}}});
  for (int rank = 0; rank < kRanksToStop; ++rank) ranks.tell(rank, when);
  ranks.await(kVictim, "stops");
  ranks.await_stopped(kVictim);
  for (int rank = 0; rank < kRanksToStop; ++rank) {
    if (rank != kVictim) ranks.tell(rank, "go on");
  }
  for (int rank = 0; rank < kRanksToStop; ++rank) {
    if (rank != kVictim) ranks.await(rank, "went on");
  }
  ranks.signal(kVictim, SIGCONT);
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

}  // namespace rueda::test
