#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "tests/runtime/agreement/tuned_job.h"

using namespace rueda::core;
using std::chrono::nanoseconds;

TEST_CASE("The fastest variant is found within fifty batches and stays") {
  TunedJob job(six_variants(), index_cost);
  job.run(4 * kMiB, 50);
  for (int i = 0; i < 200; ++i) CHECK(job.run(4 * kMiB) == Variant{1, 0, Stores::kNonTemporal});
  CHECK(job.excess() < Tuner::kPurse);
}

TEST_CASE("With noise the winner is at most three percent slower than the best") {
  for (int best = 0; best < 6; ++best) {
    const std::vector<Variant> variants = six_variants();
    // Costs step by 5 %, from the best one on.
    const auto cost = [&](const Variant& variant, uint64_t) {
      const auto index = std::find(variants.begin(), variants.end(), variant) - variants.begin();
      return 0.2 * (1 + 0.05 * static_cast<double>((index - best + 6) % 6));
    };
    TunedJob job(variants, cost);
    job.noise(0.05);
    CHECK(cost(job.run(4 * kMiB, 100), 0) <= 0.2 * 1.03);
  }
}

TEST_CASE("Only batches that follow others of their variant are timed") {
  TunedJob job(six_variants(), index_cost);
  job.refine();
  job.run(kMiB / 4, 2);  // the reference
  job.cold(Tuner::kMostWarmUps);
  job.run(kMiB / 4, 1000);
  CHECK(job.run(kMiB / 4) == Variant{1, 0, Stores::kNonTemporal});
  job.pass(std::chrono::seconds(2));  // for challengers
  job.run(kMiB / 4, 2000);
  const size_t trials = job.reports().size();
  CHECK(trials > 100);
  for (const TrialReport& report : job.reports()) {
    const double per_byte = static_cast<double>(report.took.count()) / static_cast<double>(report.bytes);
    CHECK(per_byte < 1.1 * index_cost(report.variant, report.bytes));
  }
}

TEST_CASE("A variant warms up in bounds while the batch that was to be timed does not come") {
  TunedJob job(six_variants(), index_cost);
  job.run(kMiB, 400);
  const Variant best{1, 0, Stores::kNonTemporal};
  REQUIRE(job.tuner().choices().at(0).variant == best);
  job.pass(std::chrono::seconds(2));  // challengers may come
  int in_others = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool challenged = job.run(kMiB) != best;
    in_others = 0;
    for (int k = 0; challenged && k < 100; ++k) in_others += job.run(kMiB + 4096) != best ? 1 : 0;
    if (challenged) break;
  }
  CHECK(in_others > 0);
  CHECK(in_others < 10);
}

TEST_CASE("Trials cost no more than the purse and what refills it, however many sizes are tried") {
  const auto cost = [](const Variant& variant, uint64_t) { return variant == six_variants().front() ? 2.0 : 3.8; };
  TunedJob job(six_variants(), cost);
  for (int round = 0; round < 60; ++round) {
    for (uint64_t bytes = 32 << 10; bytes <= 16 * kMiB; bytes *= 2) job.run(bytes);
  }
  CHECK(job.excess() <= Tuner::kPurse + job.elapsed() / 1000);
  CHECK(job.excess() > Tuner::kPurse / 2);
}

TEST_CASE("A batch too long for the purse takes what the nearest size has chosen") {
  TunedJob job(six_variants(), index_cost);
  job.run(8 * kMiB, 60);
  const int trials = job.trials();
  const Variant huge = job.run(4096 * kMiB, 4);
  CHECK(huge == Variant{1, 0, Stores::kNonTemporal});
  CHECK(job.trials() == trials + 1);  // the reference
}

TEST_CASE("A batch too long for the purse does not take what the nearest size has chosen at another distance") {
  TunedJob job(six_variants(), index_cost);
  job.run(8 * kMiB, 60);
  job.distance(Distance::kFar);
  CHECK(job.run(4096 * kMiB, 4) == six_variants().front());
}

TEST_CASE("A variant that has been lucky once does not stay when no more trials can be paid") {
  const Variant lucky = six_variants()[3];
  bool early = true;
  const auto cost = [&](const Variant& variant, uint64_t) {
    if (variant == lucky) return early ? 0.1 : 0.4;
    return variant == six_variants()[0] ? 0.3 : 0.35;
  };
  TunedJob job(six_variants(), cost);
  const uint64_t bytes = 256 * kMiB;
  job.run(bytes, 2);  // the reference
  while (job.run(bytes) != lucky) continue;
  early = false;
  for (int i = 0; i < 60; ++i) job.run(bytes);
  CHECK(job.run(bytes) != lucky);
  CHECK(job.tuner().choices().empty());  // undecided: there is nothing left to pay more trials with
}

TEST_CASE("A variant that was tried once and was slower than the usual one is not used while the purse is empty") {
  const Variant usual = six_variants().front();
  TunedJob job(six_variants(), [&](const Variant& variant, uint64_t) { return variant == usual ? 0.1 : 0.6; });
  const uint64_t bytes = 1024 * kMiB;  // 0.1 s, and 0.6 s otherwise
  job.run(bytes, 2);                   // the reference
  REQUIRE(job.run(bytes) != usual);
  for (int i = 0; i < 60; ++i) CHECK(job.run(bytes) == usual);
}

TEST_CASE("A reference that other work has made long does not forbid trials for ever") {
  double factor = 1000;
  TunedJob job(six_variants(),
               [&](const Variant& variant, uint64_t bytes) { return factor * index_cost(variant, bytes); });
  job.run(4 * kMiB, 2);  // over two seconds
  factor = 1;
  CHECK(job.run(4 * kMiB, 100) == Variant{1, 0, Stores::kNonTemporal});
}

TEST_CASE("Batches of two sizes in turn do not give one variant all the long ones") {
  // Longer ones take three times the time for each byte: the better stores would lose with them alone.
  const auto cost = [](const Variant& variant, uint64_t bytes) {
    return index_cost(variant, bytes) * (bytes > 4 * kMiB ? 3 : 1);
  };
  TunedJob job(six_variants(), cost);
  for (int i = 0; i < 60; ++i) {
    job.run(4 * kMiB);
    job.run(5 * kMiB);
  }
  CHECK(job.run(5 * kMiB).stores == Stores::kNonTemporal);
}

TEST_CASE("Each distance keeps its choice, which is back at once when the cores move") {
  Distance where = Distance::kNear;
  const auto cost = [&](const Variant& variant, uint64_t bytes) {
    const bool plain = variant.stores == Stores::kPlain;
    return index_cost(
        {1, variant.chunk_shift, plain == (where == Distance::kNear) ? Stores::kNonTemporal : Stores::kPlain}, bytes);
  };
  TunedJob job(six_variants(), cost);
  const auto move = [&](Distance to) {
    where = to;
    job.distance(to);
  };
  CHECK(job.run(4 * kMiB, 80).stores == Stores::kPlain);
  move(Distance::kFar);
  CHECK(job.run(4 * kMiB, 100).stores == Stores::kNonTemporal);
  move(Distance::kNear);
  job.run(4 * kMiB, 33);  // until a batch is timed
  const int trials = job.trials();
  CHECK(job.run(4 * kMiB).stores == Stores::kPlain);
  CHECK(job.trials() == trials);
}

TEST_CASE("A lasting change of times begins a new contest, and a passing one does not") {
  bool turned = false;
  const auto cost = [&](const Variant& variant, uint64_t bytes) {
    const bool plain = variant.stores == Stores::kPlain;
    return index_cost({1, 0, plain == turned ? Stores::kNonTemporal : Stores::kPlain}, bytes);
  };
  TunedJob job(six_variants(), cost);
  CHECK(job.run(4 * kMiB, 100).stores == Stores::kNonTemporal);
  job.pass(std::chrono::minutes(1));
  // Challengers of the choice may run meanwhile.
  const auto require_choice = [&job] {
    job.run(4 * kMiB);
    REQUIRE(job.tuner().choices().size() == 1);
    CHECK(job.tuner().choices().front().variant.stores == Stores::kNonTemporal);
  };
  turned = true;
  for (const int trials = job.trials(); job.trials() < trials + 3;) require_choice();
  turned = false;
  for (int i = 0; i < 100; ++i) require_choice();
  turned = true;
  CHECK(job.run(4 * kMiB, 200).stores == Stores::kPlain);
}

TEST_CASE("A decision holds for ten seconds at least, whatever the times") {
  double factor = 1;
  TunedJob job(six_variants(),
               [&](const Variant& variant, uint64_t bytes) { return factor * index_cost(variant, bytes); });
  job.run(64 << 10, 200);
  const size_t decided = job.reports().size();
  factor = 3;
  job.run(64 << 10, 200);
  REQUIRE(job.reports().size() > decided + 10);
  for (size_t i = decided; i < job.reports().size(); ++i) {
    CHECK(job.reports()[i].variant == Variant{1, 0, Stores::kNonTemporal});
  }
}

TEST_CASE("Lost reports cost a choice, never a batch") {
  // Before the first time is known, before any variant's, and in the middle of a contest.
  for (const int heard : {0, 2, 10}) {
    TunedJob job(six_variants(), index_cost);
    job.run(4 * kMiB, heard);
    job.lose_reports(true);
    job.run(4 * kMiB, 200);
    job.lose_reports(false);
    job.tuner().timed({9999, nanoseconds(1), Distance::kFar});  // a trial that never was
    const int trials = job.trials();
    job.run(4 * kMiB, 150);
    CHECK(job.trials() > trials);
    CHECK(job.run(4 * kMiB).stores == Stores::kNonTemporal);
  }
}

TEST_CASE("A trial whose report is lost does not hold its part of the purse for ever") {
  TunedJob job(six_variants(), [](const Variant& variant, uint64_t bytes) { return 10 * index_cost(variant, bytes); });
  BatchShape huge = TunedJob::shape(39'000'000);  // 195 ms in the first variant, which is the reference
  huge.set = 7;
  for (int i = 0; i < 2; ++i) job.run(huge);
  job.lose_reports(true);
  job.run(huge);
  job.lose_reports(false);
  job.run(4 * kMiB, 200);
  CHECK(job.run(4 * kMiB) == six_variants().front());  // 21 ms for a trial are not left
  CHECK(job.run(4 * kMiB, 300).stores == Stores::kNonTemporal);
}

TEST_CASE("Challengers cost no more than the purse although a class has batches of many sizes") {
  const auto cost = [](const Variant& variant, uint64_t) {
    return variant == Variant{1, 0, Stores::kNonTemporal} ? 1.0 : 4.0;
  };
  TunedJob job(six_variants(), cost);
  rueda::sim::Random random(1);
  for (int i = 0; i < 100'000; ++i) job.run(kMiB + 4096 * random.below(64));
  CHECK(job.excess() <= Tuner::kPurse + job.elapsed() / 1000);
}

TEST_CASE("Batches that were to be timed and do not come hold no part of the purse for ever") {
  TunedJob job(six_variants(), index_cost);
  for (SetId set = 1; set <= 300; ++set) {
    BatchShape shape = TunedJob::shape(4 * kMiB);
    shape.set = set;
    for (int i = 0; i < 3; ++i) job.run(shape);  // the third warms up
  }
  job.pass(std::chrono::minutes(10));
  CHECK(job.run(4 * kMiB, 600) == Variant{1, 0, Stores::kNonTemporal});
  // Nor do those of a distance that the cores have left.
  job.pass(std::chrono::minutes(10));
  for (SetId set = 301; set <= 600; ++set) {
    BatchShape shape = TunedJob::shape(4 * kMiB);
    shape.set = set;
    job.distance(Distance::kNear);
    for (int i = 0; i < 3; ++i) job.run(shape);
    job.distance(Distance::kFar);
    for (int i = 0; i < 3; ++i) job.run(shape);
  }
  job.pass(std::chrono::minutes(10));
  CHECK(job.run(5 * kMiB, 600) == Variant{1, 0, Stores::kNonTemporal});
}

TEST_CASE("What has one way only, or contributes nothing, is not tried") {
  TunedJob job(six_variants(), index_cost);
  const auto untouched = [&](const BatchShape& shape) {
    for (int i = 0; i < 40; ++i) {
      const Tuner::Pick pick = job.tuner().pick(shape);
      if (pick.variant || pick.trial != 0) return false;
    }
    return true;
  };
  CHECK(untouched(TunedJob::shape(4)));
  BatchShape shape = TunedJob::shape(kMiB);
  shape.ranks = 1;
  CHECK(untouched(shape));
  shape = TunedJob::shape(kMiB);
  shape.shared = true;
  CHECK(untouched(shape));
  shape = TunedJob::shape(kMiB);
  shape.device = 0;
  CHECK(untouched(shape));
  shape = TunedJob::shape(kMiB);
  shape.kind = OpKind::kAllgather;
  CHECK(untouched(shape));
  shape = TunedJob::shape(kMiB);
  shape.absent = 1;
  CHECK(untouched(shape));
}

TEST_CASE("Process sets are tuned apart, and more of them than are kept push out the oldest") {
  TunedJob job(six_variants(), index_cost);
  for (SetId set = 0; set < 600; ++set) {
    BatchShape shape = TunedJob::shape(64 << 10);
    shape.set = set;
    for (int i = 0; i < 3; ++i) job.run(shape);
  }
  BatchShape shape = TunedJob::shape(64 << 10);
  shape.set = 599;
  for (int i = 0; i < 200; ++i) job.run(shape);
  CHECK(job.run(shape) == Variant{1, 0, Stores::kNonTemporal});
  shape.set = 598;  // kept: the first batches are over, and it goes on with its contest
  CHECK(job.tuner().pick(shape).variant);
  shape.set = 1;  // forgotten: it warms up again
  const Tuner::Pick pick = job.tuner().pick(shape);
  CHECK((!pick.variant && pick.trial == 0));
}

TEST_CASE("A trial in which a process was stopped for an hour does not end tuning") {
  TunedJob job(six_variants(), index_cost);
  job.run(4 * kMiB, 2);
  Tuner::Pick pick;
  for (int i = 0; i < 2 + Tuner::kMostWarmUps && pick.trial == 0; ++i) {
    pick = job.tuner().pick(TunedJob::shape(4 * kMiB));
  }
  REQUIRE(pick.trial != 0);
  job.tuner().timed({pick.trial, std::chrono::hours(1), Distance::kNear});
  job.pass(std::chrono::minutes(10));
  CHECK(job.run(4 * kMiB, 100) == Variant{1, 0, Stores::kNonTemporal});
  CHECK(job.tuner().choices().size() == 1);
}

TEST_CASE("A batch that is said to have taken no time tells nothing") {
  TunedJob job(six_variants(), index_cost);
  for (int i = 0; i < 100; ++i) {
    const Tuner::Pick pick = job.tuner().pick(TunedJob::shape(4 * kMiB));
    if (pick.trial != 0) job.tuner().timed({pick.trial, nanoseconds(0), Distance::kNear});
  }
  CHECK(job.tuner().choices().empty());
}

TEST_CASE("Recalled choices hold from the first batch, and those of unknown variants do not") {
  TunedJob first(six_variants(), index_cost);
  first.run(4 * kMiB, 100);
  const std::vector<TunedChoice> choices = first.tuner().choices();
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].variant == Variant{1, 0, Stores::kNonTemporal});
  CHECK(choices[0].batches.distance == Distance::kNear);

  TunedJob second(six_variants(), index_cost);
  TunedChoice choice = choices[0];
  choice.batches.distance = Distance::kUnknown;
  choice.variant = {1, 2, Stores::kPlain};
  second.tuner().recall(choice);
  CHECK(second.run(4 * kMiB) == choice.variant);
  choice.variant = {77, 0, Stores::kPlain};
  TunedJob third(six_variants(), index_cost);
  third.tuner().recall(choice);
  CHECK(third.run(4 * kMiB, 100) == Variant{1, 0, Stores::kNonTemporal});
}

TEST_CASE("A class spans half a doubling") {
  CHECK(least_bytes(size_class(1)) == 1);
  for (const uint64_t bytes : {uint64_t{3}, uint64_t{4}, uint64_t{6}, kMiB, kMiB * 3 / 2, uint64_t{1} << 46}) {
    CHECK(least_bytes(size_class(bytes)) == bytes);
    CHECK(size_class(bytes - 1) == size_class(bytes) - 1);
  }
}

TEST_CASE("The log hears each trial and the choice") {
  TunedJob job(six_variants(), index_cost);
  job.run(4 * kMiB, 60);
  REQUIRE_FALSE(job.reports().empty());
  int chosen = 0;
  for (const TrialReport& report : job.reports()) chosen += report.role == TrialRole::kChosen ? 1 : 0;
  CHECK(chosen == 1);
  CHECK(job.reports().size() == static_cast<size_t>(job.trials()));  // less the reference, and the choice besides
  CHECK(job.reports().front().bytes == 4 * kMiB);
}

TEST_CASE("A check runs the choice and each variant in turn, and times them once they are warm") {
  TunedJob job(six_variants(), index_cost, true);
  job.run(4 * kMiB, 60);
  const size_t before = job.reports().size();
  const size_t timed = 4 * six_variants().size();
  bool last_timed = true;  // one before the first warms up
  for (size_t i = 0; i < 2 * timed && job.reports().size() - before < timed; ++i) {
    const int trials = job.trials();
    job.run(4 * kMiB);
    const bool is_timed = job.trials() != trials;
    CHECK_FALSE((is_timed && last_timed));
    last_timed = is_timed;
  }
  std::map<uint8_t, int> beside;
  Variant own;
  for (size_t i = before; i < job.reports().size(); ++i) {
    const TrialReport& report = job.reports()[i];
    if (report.role == TrialRole::kOwn) own = report.variant;
    if (report.role == TrialRole::kOther && report.variant.stores == Stores::kPlain)
      ++beside[report.variant.chunk_shift];
  }
  CHECK(own == Variant{1, 0, Stores::kNonTemporal});
  CHECK(beside.size() == 3);
  for (const auto& [shift, times] : beside) CHECK(times >= 1);
  CHECK(job.reports().size() - before == timed);
  CHECK(job.tuner().choices().size() == 1);
  CHECK(job.tuner().choices()[0].variant == own);
}
