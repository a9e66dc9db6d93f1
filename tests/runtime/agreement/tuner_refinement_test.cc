#include <catch2/catch.hpp>

#include "tests/runtime/agreement/tuned_job.h"

using namespace rueda::core;

namespace {

/// As index_cost; batches that sleep take a tenth less, those in two slots a fifth less.
double refined_cost(const Variant& variant, uint64_t bytes) {
  return index_cost(variant, bytes) * (variant.sleeps ? 0.9 : 1) * (variant.lane_slots == 2 ? 0.8 : 1);
}

}  // namespace

TEST_CASE("The fastest variant's refinements are tried after it, and the best of them stays") {
  TunedJob job(six_variants(), refined_cost);
  job.refine();
  job.run(4 * kMiB, 100);
  const Variant best{1, 0, Stores::kNonTemporal, true, 2};
  for (int i = 0; i < 200; ++i) CHECK(job.run(4 * kMiB) == best);
  CHECK(job.excess() < Tuner::kPurse);
  std::vector<Variant> chosen;
  for (const TrialReport& report : job.reports()) {
    if (report.role == TrialRole::kChosen) chosen.push_back(report.variant);
  }
  CHECK(chosen == std::vector<Variant>{{1, 0, Stores::kNonTemporal}, best});

  // A start that knows the choice tries nothing.
  TunedJob next(six_variants(), refined_cost);
  next.refine();
  for (const TunedChoice& choice : job.tuner().choices()) next.tuner().recall(choice);
  next.distance(Distance::kNear);
  next.run(4 * kMiB, 4);
  for (int i = 0; i < 100; ++i) CHECK(next.run(4 * kMiB) == best);

  // Other work has come: two slots are the worst now.
  job.cost([](const Variant& variant, uint64_t bytes) {
    return index_cost(variant, bytes) * (variant.lane_slots == 2 ? 4 : 2) * (variant.sleeps ? 1.3 : 1);
  });
  job.pass(std::chrono::seconds(20));
  job.run(4 * kMiB, 400);
  CHECK(job.run(4 * kMiB) == Variant{1, 0, Stores::kNonTemporal});
}

TEST_CASE("While the purse has nothing for refinements, batches run in the variant that was found") {
  TunedJob job(six_variants(), [](const Variant& variant, uint64_t bytes) {
    return index_cost(variant, bytes) * (variant.sleeps || variant.lane_slots != 0 ? 300 : 1);
  });
  job.refine();
  job.run(4 * kMiB, 60);
  int others = 0;
  for (int i = 0; i < 300; ++i) others += job.run(4 * kMiB) == Variant{1, 0, Stores::kNonTemporal} ? 0 : 1;
  CHECK(others <= 3);
}
