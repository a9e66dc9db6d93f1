// Which variant a contest finds if other work, or more ranks than cores, make times differ.
#include "runtime/agreement/contest.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "tests/runtime/agreement/tuned_job.h"

using namespace rueda::core;

namespace {

constexpr uint64_t kSeeds = 60;

using Draw = std::function<double(size_t variant, rueda::sim::Random&)>;  ///< a variant's next time

double uniform(rueda::sim::Random& random) { return static_cast<double>(random.below(1u << 30)) / (1u << 30); }

struct Outcome {
  size_t winner = 0;
  int trials = 0;
};

Outcome hold(uint64_t seed, const Draw& draw) {
  rueda::sim::Random random(seed);
  Contest contest(six_variants());
  Outcome outcome;
  while (const std::optional<size_t> next = contest.next()) {
    contest.begin(*next);
    contest.took(*next, draw(*next, random));
    REQUIRE(++outcome.trials <= static_cast<int>(contest.size()) * Contest::kMostRounds);
  }
  REQUIRE(contest.winner());
  outcome.winner = *contest.winner();
  CHECK(contest.leader() == contest.winner());
  return outcome;
}

/// In how many of kSeeds contests this variant wins.
int victories(size_t variant, const Draw& draw) {
  int count = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) count += hold(seed, draw).winner == variant ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a variant that is fast in some batches and slow in most does not win by the fast ones") {
  const auto draw = [](size_t variant, rueda::sim::Random& random) {
    if (variant == 2) return 1.0 + 0.05 * uniform(random);
    return uniform(random) < 0.3 ? 0.7 : 1.4;  // 1.19 on average
  };
  CHECK(victories(2, draw) > 45);
}

TEST_CASE("the best of variants whose times lie far apart is found by many of them") {
  // Between 0.5 and 1.5 times the mean; the best one's is a seventh less than the others'.
  const auto draw = [](size_t variant, rueda::sim::Random& random) {
    return (variant == 4 ? 1 : 1.17) * (0.5 + uniform(random));
  };
  CHECK(victories(4, draw) > 45);
}

TEST_CASE("times that lie close together need few rounds, although other work makes some batches long") {
  const auto draw = [](size_t variant, rueda::sim::Random& random) {
    const bool disturbed = random.below(20) == 0;
    return (1 + 0.04 * static_cast<double>(variant)) * (1 + 0.02 * uniform(random)) * (disturbed ? 3 : 1);
  };
  int trials = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) trials += hold(seed, draw).trials;
  CHECK(victories(0, draw) > 54);
  CHECK(trials < static_cast<int>(kSeeds) * 6 * Contest::kRounds * 3 / 2);
}

TEST_CASE("a variant that may not drop out before its third run survives two batches that other work made long") {
  const auto draw = [](size_t variant, int run) { return variant == 3 ? (run < 2 ? 40.0 : 1.0) : 2.0; };
  for (const auto& [fewest, winner] : std::vector<std::pair<int, size_t>>{{3, 3}, {1, 0}}) {
    Contest contest(six_variants(), fewest);
    std::vector<int> runs(contest.size());
    while (const std::optional<size_t> next = contest.next()) {
      contest.begin(*next);
      contest.took(*next, draw(*next, runs[*next]++));
    }
    REQUIRE(contest.winner());
    CHECK((*contest.winner() == 3) == (winner == 3));
  }
}

TEST_CASE("one variant is always left, however times change") {
  // Each variant's times change by another factor in the middle of the contest, so it is judged now by some and now by
  // all of them.
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::vector<int> runs(6);
    hold(seed, [&](size_t variant, rueda::sim::Random& random) {
      const double spread = ++runs[variant] % 5 == 0 ? 3 : 0.05;
      return 1 + spread * -std::log(1 - uniform(random));
    });
  }
}
