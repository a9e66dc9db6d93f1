// How the times of a host's ranks become the time of a batch.
#include "runtime/engine/trial_times.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

namespace rueda::core {
namespace {

using std::chrono::microseconds;

SteadyClock::time_point at(int64_t us) { return SteadyClock::time_point(microseconds(us)); }

TrialSpan span(int64_t agreed, int64_t before, int64_t ended) { return {at(agreed), at(before), at(ended)}; }

/// Ranks of one host, and one of another host after them.
class Ranks {
 public:
  explicit Ranks(size_t local) : words_(local) {
    std::vector<ControlWords*> all;
    for (ControlWords& words : words_) all.push_back(&words);
    all.push_back(nullptr);
    for (size_t rank = 0; rank < local; ++rank)
      ranks_.push_back(std::make_unique<TrialTimes>(static_cast<int>(rank), all));
  }
  TrialTimes& operator[](size_t rank) { return *ranks_[rank]; }
  ControlWords& words(size_t rank) { return words_[rank]; }

 private:
  std::vector<ControlWords> words_;
  std::vector<std::unique_ptr<TrialTimes>> ranks_;
};

/// What a rank waits for and has heard, in microseconds; -1 if nothing is complete.
int64_t taken(TrialTimes& times) RUEDA_ON(baton_holder) {
  const std::vector<TrialTimes::Time> all = times.take();
  if (all.empty()) return -1;
  CHECK(all.size() == 1);
  return std::chrono::duration_cast<microseconds>(all.front().second.took).count();
}

TEST_CASE("a batch takes from the first verdict to the last end") {
  baton_holder.assert_held();
  Ranks ranks(3);
  ranks[1].show(7, span(90, 0, 200));
  CHECK(ranks[1].empty());
  CHECK(taken(ranks[1]) == -1);
  ranks[1].await(5, {7, {}, Distance::kFar}, {1, 2, 3});
  CHECK_FALSE(ranks[1].empty());
  CHECK(taken(ranks[1]) == -1);
  ranks[0].show(7, span(1, 0, 1000));  // no member
  CHECK(taken(ranks[1]) == -1);
  ranks[2].show(7, span(100, 0, 350));
  const std::vector<TrialTimes::Time> all = ranks[1].take();
  REQUIRE(all.size() == 1);
  CHECK((all[0].first == 5 && all[0].second.trial == 7 && all[0].second.distance == Distance::kFar));
  CHECK(all[0].second.took == microseconds(260));
  CHECK(ranks[1].empty());
  CHECK(taken(ranks[1]) == -1);
}

TEST_CASE("a batch does not take what the batch before it took") {
  baton_holder.assert_held();
  Ranks ranks(2);
  ranks[0].show(1, span(10, 40, 100));
  ranks[1].show(1, span(20, 60, 90));
  ranks[0].await(kGlobalSet, {1, {}, Distance::kNear}, {0, 1});
  CHECK(taken(ranks[0]) == 40);
}

TEST_CASE("ranks of other hosts and with other clocks are left out") {
  baton_holder.assert_held();
  Ranks ranks(2);
  ++ranks.words(1).clock;
  ranks[0].show(1, span(10, 0, 100));
  ranks[0].await(kGlobalSet, {1, {}, Distance::kNear}, {0, 1, 2});
  CHECK(taken(ranks[0]) == 90);
}

TEST_CASE("a time that one rank does not know is never reported") {
  baton_holder.assert_held();
  Ranks ranks(2);
  TrialSpan overlapped = span(10, 0, 100);
  overlapped.known = false;
  const size_t unknown = GENERATE(0u, 1u);
  ranks[unknown].show(1, overlapped);
  ranks[1 - unknown].show(1, span(10, 0, 100));
  ranks[0].await(kGlobalSet, {1, {}, Distance::kNear}, {0, 1});
  CHECK(taken(ranks[0]) == -1);
  CHECK(ranks[0].empty());
}

TEST_CASE("a time that a later trial has overwritten is never reported") {
  baton_holder.assert_held();
  Ranks ranks(2);
  ranks[0].show(1, span(10, 0, 100));
  ranks[0].await(kGlobalSet, {1, {}, Distance::kNear}, {0, 1});
  ranks[1].show(1 + kTrialsShown, span(300, 0, 400));
  ranks[1].show(1, span(10, 0, 100));  // late, so it is left out
  CHECK(taken(ranks[0]) == -1);
  CHECK(ranks[0].empty());
  ranks[0].show(1 + kTrialsShown, span(310, 0, 420));
  ranks[0].await(kGlobalSet, {1 + kTrialsShown, {}, Distance::kNear}, {0, 1});
  CHECK(taken(ranks[0]) == 120);
}

TEST_CASE("trials that nobody else shows are waited for in bounds") {
  baton_holder.assert_held();
  Ranks ranks(2);
  for (uint64_t trial = 1; trial <= 2 * kTrialsShown; ++trial) {
    ranks[0].show(trial, span(10, 0, 100));
    ranks[0].await(kGlobalSet, {trial, {}, Distance::kNear}, {0, 1});
  }
  for (uint64_t trial = 1; trial <= 2 * kTrialsShown; ++trial) ranks[1].show(trial, span(10, 0, 100));
  CHECK(ranks[0].take().size() == kTrialsShown);
  CHECK(ranks[0].empty());
}

TEST_CASE("times that change while they are read belong to one trial") {
  baton_holder.assert_held();
  constexpr int64_t kTrials = 200'000;
  constexpr int kMostRounds = 50;
  Ranks ranks(2);
  // All trials share a slot, so that each one changes the times of the one before it.
  const auto number_of = [](int64_t i) { return static_cast<uint64_t>(i) * kTrialsShown + 1; };
  int64_t first = 1;
  size_t wrong = 0, heard = 0;
  for (int round = 0; round < kMostRounds && heard < 50'000; ++round, first += kTrials) {
    std::atomic<int64_t> latest{0};
    std::thread other([&, first] {
      for (int64_t i = first; i < first + kTrials; ++i) {
        ranks[1].show(number_of(i), span(i * 100, i, i * 101));
        latest.store(i, std::memory_order_release);
      }
    });
    for (int64_t i = 0; i < first + kTrials - 1;) {
      i = latest.load(std::memory_order_acquire);
      if (i == 0) continue;
      ranks[0].show(number_of(i), span(i * 100, i, i * 100));
      ranks[0].await(kGlobalSet, {number_of(i), {}, Distance::kNear}, {0, 1});
      for (const auto& [set, time] : ranks[0].take()) {
        ++heard;
        const auto shown = static_cast<int64_t>((time.trial - 1) / kTrialsShown);
        if (time.took != microseconds(shown)) ++wrong;
      }
    }
    other.join();
  }
  CHECK(wrong == 0);
  CHECK(heard >= 1);
}

}  // namespace
}  // namespace rueda::core
