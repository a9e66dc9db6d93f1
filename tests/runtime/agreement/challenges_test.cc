#include "runtime/agreement/challenges.h"

#include <catch2/catch.hpp>

#include "tests/runtime/agreement/tuned_job.h"

using namespace rueda::core;
using std::chrono::milliseconds;

namespace {

const Variant kBest{1, 0, Stores::kNonTemporal};
const Variant kLucky{1, 2, Stores::kNonTemporal};

/// A job whose contest was won by kLucky, which is a fifth slower than kBest from then on.
TunedJob misled_job() {
  TunedJob job(six_variants(),
               [](const Variant& variant, uint64_t) { return variant == kLucky ? 0.1 : index_cost(variant, 0); });
  CHECK(job.run(kMiB, 100) == kLucky);
  job.cost(index_cost);
  return job;
}

}  // namespace

TEST_CASE("A challenger wins once it has won seven pairs more than it lost, and is first in every second one") {
  Challenges challenges({kBest, kLucky}, {});
  auto now = SteadyClock::time_point{} + Challenges::kFirstRest;
  CHECK_FALSE(challenges.due(now - milliseconds(1)));
  std::optional<Variant> won;
  for (uint64_t pair = 1; pair <= 13; ++pair) {
    CHECK_FALSE(won);
    REQUIRE(challenges.due(now));
    CHECK(challenges.challenger() == kBest);
    CHECK(challenges.challenger_first() == (pair % 2 == 0));
    challenges.begin(pair, now);
    CHECK_FALSE(challenges.due(now + Challenges::kRest - milliseconds(1)));
    CHECK_FALSE(challenges.took_challenger(pair, pair <= 4 && pair != 2 ? 0.98 : 0.96));
    CHECK_FALSE(challenges.took_choice(pair + 1, 1));  // of a pair that it does not know
    won = challenges.took_choice(pair, 1);
    now += Challenges::kRest;
  }
  CHECK(won == kBest);
}

TEST_CASE("A challenger three pairs behind makes room for the next one, and tours come ever later") {
  Challenges challenges({kBest, kLucky}, {});
  auto now = SteadyClock::time_point{} + Challenges::kFirstRest;
  std::vector<Variant> challengers;
  for (uint64_t pair = 1; pair <= 9; ++pair) {
    REQUIRE(challenges.due(now));
    challengers.push_back(challenges.challenger());
    challenges.begin(pair, now);
    CHECK_FALSE(challenges.took_choice(pair, 1));
    CHECK_FALSE(challenges.took_challenger(pair, 0.98));
    now += Challenges::kRest * (pair <= 6 ? 1 : 2);
  }
  CHECK(challengers == std::vector<Variant>{kBest, kBest, kBest, kLucky, kLucky, kLucky, kBest, kBest, kBest});
  CHECK_FALSE(challenges.due(now - milliseconds(1)));
  CHECK(challenges.due(now));
}

TEST_CASE("Each choice that gives way to another one is challenged more seldom") {
  TunedJob job(six_variants(), index_cost);
  job.run(kMiB, 1000);
  std::vector<std::chrono::nanoseconds> stood;
  for (int change = 0; change < 4; ++change) {
    const Variant chosen = job.tuner().choices().at(0).variant;
    job.cost([chosen](const Variant& variant, uint64_t) { return variant == chosen ? 0.22 : 0.2; });
    const auto from = job.elapsed();
    while (job.tuner().choices().at(0).variant == chosen) job.run(kMiB, 10);
    stood.push_back(job.elapsed() - from);
  }
  CHECK(stood.back() > 2 * stood.front());
}

TEST_CASE("A choice that a contest made by chance gives way to a better variant") {
  for (const double noise : {0.0, 0.05}) {
    TunedJob job = misled_job();
    job.noise(noise);
    const auto contest = job.excess(), decided = job.elapsed();
    REQUIRE(job.tuner().choices().at(0).variant == kLucky);
    for (int i = 0; i < 100 && job.tuner().choices().at(0).variant == kLucky; ++i) job.run(kMiB, 1000);
    CHECK(job.tuner().choices().at(0).variant == kBest);
    CHECK(job.excess() - contest < Tuner::kPurse + (job.elapsed() - decided) * 3 / 100);
  }
}

TEST_CASE("A challenger that is better on average wins although chance decides many pairs, and a worse one does not") {
  rueda::sim::Random random(7);
  const auto victories = [&random](uint32_t of_ten) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) {
      Challenges challenges({kBest, kLucky}, {});
      std::optional<Variant> won;
      for (uint64_t pair = 1; !won && challenges.challenger() == kBest; ++pair) {
        challenges.begin(pair, {});
        challenges.took_choice(pair, 1);
        won = challenges.took_challenger(pair, random.below(10) < of_ten ? 0.5 : 1.5);
      }
      if (won) ++count;
    }
    return count;
  };
  CHECK(victories(9) > 980);
  CHECK(victories(7) > 880);
  CHECK(victories(3) < 20);
}

TEST_CASE("Challengers cost a thousandth of the time, however much longer they take") {
  TunedJob job(six_variants(), [](const Variant& variant, uint64_t) { return variant == kBest ? 0.2 : 20.0; });
  job.run(kMiB, 100);
  const auto excess = job.excess();
  const auto elapsed = job.elapsed();
  for (int i = 0; i < 400; ++i) job.run(kMiB, 500);
  CHECK(job.tuner().choices().at(0).variant == kBest);
  CHECK(job.excess() - excess > milliseconds(1));  // they do run
  CHECK(job.excess() - excess < Tuner::kPurse + (job.elapsed() - elapsed) / 1000 + milliseconds(50));
}

TEST_CASE("Both batches of a pair are of one size, though a program's batches take turns between two") {
  // They cost next to nothing, and batches are so long that each one that is timed belongs to a pair.
  TunedJob job(six_variants(), [](const Variant& variant, uint64_t) { return variant == kBest ? 0.199 : 0.2; });
  job.run(64 * kMiB, 200);
  const size_t decided = job.reports().size();
  for (int i = 0; i < 350; ++i) {
    job.run(64 * kMiB);
    job.run(80 * kMiB);
  }
  const auto& reports = job.reports();
  int challengers = 0;
  for (size_t i = decided; i + 1 < reports.size(); ++i) {
    if (reports[i].variant == kBest) continue;
    ++challengers;
    const auto beside = [&](const TrialReport& other) {
      return other.variant == kBest && other.bytes == reports[i].bytes;
    };
    CHECK((beside(reports[i - 1]) || beside(reports[i + 1])));
  }
  CHECK(challengers > 8);
  CHECK(job.run(64 * kMiB) == kBest);
}

TEST_CASE("Lost reports of a pair change nothing") {
  TunedJob job = misled_job();
  job.lose_reports(true);
  job.run(kMiB, 20'000);
  job.lose_reports(false);
  for (int i = 0; i < 60; ++i) job.run(kMiB, 1000);
  CHECK(job.tuner().choices().at(0).variant == kBest);
}
