// A tuner that meets batches of all sizes, sets, distances and numbers of contributors, with reports that are lost,
// late, doubled or false, tunes a class as well afterwards as a fresh one: nothing of the purse stays held.
#include <array>
#include <catch2/catch.hpp>
#include <utility>

#include "tests/runtime/agreement/tuned_job.h"

using namespace rueda::core;

namespace {

using std::chrono::nanoseconds;

constexpr SetId kCalmSet = 1000;
const Variant kBestWhenCalm = six_variants().back();

/// Another one is best than in the storm, so that no neighbour can tell it.
double cost_when_calm(const Variant& variant) { return variant == kBestWhenCalm ? 0.2 : 0.5; }

class Storm {
 public:
  enum class Kind {
    kWild,  ///< reports may be false: a choice that a false one has made is tried for nothing
    kMild,  ///< true reports of short batches: the purse stays full, and nobody looks for plans that hold some of it
  };
  Storm(uint64_t seed, Kind kind) : random_(seed), kind_(kind) {}

  /// Each phase is a few batches of two sizes in one set. Some end while a variant warms up for a trial.
  void blow(int phases) {
    for (int i = 0; i < phases; ++i) {
      begin_phase();
      for (size_t batches = 1 + random_.below(random_.once_in(8) ? 400 : 40); batches > 0; --batches) {
        const BatchShape shape = any_shape();
        const Tuner::Pick pick = tuner_.pick(shape);
        const nanoseconds took = run(shape, pick);
        if (pick.trial != 0) hear({pick.trial, took, distance_});
        if (random_.once_in(8)) deliver_late();
        if (random_.once_in(50)) tuner_.timed({random_.next(), took, distance_});
      }
      now_ += std::chrono::milliseconds(random_.below(20000));
    }
    late_.clear();
  }
  /// Batches of one class that nobody disturbs; returns how many of the last hundred ran in the best variant.
  int calm(uint64_t bytes, int batches) {
    BatchShape shape = TunedJob::shape(bytes);
    shape.set = kCalmSet;
    int in_best = 0;
    for (int i = 0; i < batches; ++i) {
      const Tuner::Pick pick = tuner_.pick(shape);
      const nanoseconds took = run(shape, pick);
      if (pick.trial != 0) tuner_.timed({pick.trial, took, Distance::kNear});
      in_best += i >= batches - 100 && pick.variant == kBestWhenCalm ? 1 : 0;
    }
    return in_best;
  }
  void pass(nanoseconds time) { now_ += time; }
  nanoseconds held() const { return tuner_.held(); }

 private:
  void begin_phase() {
    set_ = static_cast<SetId>(random_.below(random_.once_in(2) ? 900 : 4));
    for (uint64_t& size : sizes_) size = uint64_t{1} << random_.between(13, kind_ == Kind::kWild ? 24 : 16);
    distance_ = static_cast<Distance>(random_.below(3));
    absent_one_in_ = random_.once_in(3) ? 4 : 1000;
  }
  BatchShape any_shape() {
    BatchShape shape = TunedJob::shape(sizes_[random_.once_in(3) ? 1 : 0] + 4096 * random_.below(3));
    shape.set = set_;
    shape.absent = random_.once_in(absent_one_in_) ? 1 : 0;
    return shape;
  }
  nanoseconds run(const BatchShape& shape, const Tuner::Pick& pick) {
    const Variant variant = pick.variant.value_or(six_variants().front());
    const double noise = 1 + 0.02 * static_cast<double>(random_.below(10));
    const double cost = shape.set == kCalmSet ? cost_when_calm(variant) : index_cost(variant, shape.bytes);
    const nanoseconds took(static_cast<int64_t>(cost * static_cast<double>(shape.bytes) * noise));
    now_ += took;
    return took;
  }
  /// Lost, late, false, doubled, or as it was.
  void hear(TrialTime time) {
    switch (random_.below(8)) {
      case 0: return;
      case 1: late_.push_back(time); return;
      case 2:
        if (kind_ == Kind::kWild)
          time.took = nanoseconds(static_cast<int64_t>(random_.next() >> random_.between(20, 63)));
        break;
      case 3: tuner_.timed(time); break;
      default: break;
    }
    tuner_.timed(time);
  }
  void deliver_late() {
    if (late_.empty()) return;
    const size_t which = random_.below(late_.size());
    tuner_.timed(std::exchange(late_[which], late_.back()));
    late_.pop_back();
  }

  rueda::sim::Random random_;
  Kind kind_;
  SteadyClock::time_point now_;
  std::vector<TrialTime> late_;
  SetId set_ = 0;
  std::array<uint64_t, 2> sizes_{};
  Distance distance_ = Distance::kUnknown;
  size_t absent_one_in_ = 1;
  Tuner tuner_{{[this] { return now_; }, [](const BatchShape&) { return six_variants(); },
                [](const BatchShape&, const Variant& variant) { return std::vector<Variant>{variant}; },
                [](const TrialReport&) {}, false}};
};

}  // namespace

TEST_CASE("After any storm of batches and reports a class is tuned as ever") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Storm storm(seed, seed % 2 == 0 ? Storm::Kind::kMild : Storm::Kind::kWild);
    storm.blow(3000);
    storm.pass(std::chrono::minutes(10));
    CHECK(storm.calm(24 * kMiB, 800) > 80);
    // Short batches, which hold little themselves: what others held longer than these ran is a leak.
    storm.calm(64 << 10, 800);
    CHECK(storm.held() >= nanoseconds(-10));  // rounding
    CHECK(storm.held() < std::chrono::milliseconds(1));
  }
}
