#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "runtime/agreement/tuner.h"
#include "tests/sim/random.h"

namespace rueda::core {

inline constexpr uint64_t kMiB = 1 << 20;

/// A job that runs one batch at a time, on a machine whose variants take known times. The clock moves by what batches
/// take.
class TunedJob {
 public:
  using Cost = std::function<double(const Variant&, uint64_t bytes)>;  ///< std::chrono::nanoseconds for each byte

  explicit TunedJob(std::vector<Variant> variants, Cost cost, bool check = false)
      : variants_(std::move(variants)),
        cost_(std::move(cost)),
        tuner_({[this] { return now_; }, [this](const BatchShape&) { return variants_; },
                [this](const BatchShape&, const Variant& variant) { return refined(variant); },
                [this](const TrialReport& report) { reports_.push_back(report); }, check}) {}

  static BatchShape shape(uint64_t bytes) {
    BatchShape shape;
    shape.bytes = bytes;
    shape.ranks = 2;
    return shape;
  }
  /// Runs a batch and returns its variant: the first one's if the tuner leaves the choice to others.
  Variant run(const BatchShape& shape) {
    const Tuner::Pick pick = tuner_.pick(shape);
    const Variant variant = pick.variant.value_or(variants_.front());
    const double bytes = static_cast<double>(shape.bytes);
    in_a_row_ = variant == last_ ? in_a_row_ + 1 : 1;
    last_ = variant;
    const double plain = cost_(variant, shape.bytes) * bytes * (in_a_row_ <= cold_ ? 3 : 1);
    const double took = plain * (1 + (noise_ == 0 ? 0 : -std::log(1 - uniform()) * noise_));
    now_ += std::chrono::nanoseconds(static_cast<int64_t>(took));
    double least = Contest::kNever;
    for (const Variant& each : variants_) {
      for (const Variant& way : refined(each)) least = std::min(least, cost_(way, shape.bytes) * bytes);
    }
    if (pick.trial != 0) {
      ++trials_;
      if (!lost_) tuner_.timed({pick.trial, std::chrono::nanoseconds(static_cast<int64_t>(took)), distance_});
    }
    excess_ += plain - least;
    return variant;
  }
  Variant run(uint64_t bytes, int batches = 1) {
    Variant last;
    for (int i = 0; i < batches; ++i) last = run(shape(bytes));
    return last;
  }

  Tuner& tuner() { return tuner_; }
  /// From now on a variant is also tried with sleeps, with two slots, and with both.
  void refine() { refines_ = true; }
  std::vector<Variant> refined(Variant variant) const {
    std::vector<Variant> all = {variant};
    for (const uint8_t slots : {uint8_t{0}, uint8_t{2}}) {
      for (const bool sleeps : {false, true}) {
        variant.sleeps = sleeps;
        variant.lane_slots = slots;
        if (refines_ && (sleeps || slots != 0)) all.push_back(variant);
      }
    }
    return all;
  }
  /// From now on the first batches after those of another variant take three times as long, as if that one had pushed
  /// what they need out of the caches.
  void cold(int batches) { cold_ = batches; }
  void noise(double mean) { noise_ = mean; }
  void cost(Cost cost) { cost_ = std::move(cost); }
  void distance(Distance distance) { distance_ = distance; }
  void lose_reports(bool lost) { lost_ = lost; }
  void pass(std::chrono::nanoseconds time) { now_ += time; }
  int trials() const { return trials_; }
  std::chrono::nanoseconds elapsed() const { return now_.time_since_epoch(); }
  std::chrono::nanoseconds excess() const { return std::chrono::nanoseconds(static_cast<int64_t>(excess_)); }
  const std::vector<TrialReport>& reports() const { return reports_; }

 private:
  double uniform() { return static_cast<double>(random_.below(1u << 30)) / (1u << 30); }

  std::vector<Variant> variants_;
  Cost cost_;
  SteadyClock::time_point now_;
  std::vector<TrialReport> reports_;
  Tuner tuner_;
  rueda::sim::Random random_{1};
  double noise_ = 0;
  Distance distance_ = Distance::kNear;
  bool lost_ = false;
  bool refines_ = false;
  Variant last_;
  int in_a_row_ = 0;
  int cold_ = 0;
  int trials_ = 0;
  double excess_ = 0;
};

inline std::vector<Variant> six_variants() {
  std::vector<Variant> variants;
  for (uint8_t shift = 0; shift < 3; ++shift) {
    variants.push_back({1, shift, Stores::kPlain});
    variants.push_back({1, shift, Stores::kNonTemporal});
  }
  return variants;
}

inline double index_cost(const Variant& variant, uint64_t) {
  return 0.2 * (1 + 0.1 * variant.chunk_shift) * (variant.stores == Stores::kPlain ? 2.5 : 1);
}

}  // namespace rueda::core
