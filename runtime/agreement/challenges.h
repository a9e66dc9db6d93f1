#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/base/deadline.h"

namespace rueda::core {

/// Looks for a variant that beats the one that a contest has chosen, in pairs of batches soon after each other. A
/// contest judges by few times, which other work may have disturbed; both batches of a pair meet the machine in the
/// same state.
///
/// One variant after the other challenges the choice. A pair in which it takes at least 3 % less time brings it one
/// step ahead, every other pair one step back. kAhead steps ahead it has won, kBehind steps behind it is dismissed. So
/// a variant that wins almost all pairs needs few of them, and one that is better by more than chance wins although
/// chance decides many, as with more ranks than cores: with 7 pairs of 10 by 0.92, with 5 by 0.3, with 3 by 0.002. Each
/// tour through all variants is followed by a longer rest. Pure; owned by the tuner. Times are nanoseconds for each
/// byte.
class Challenges {
 public:
  static constexpr int kAhead = 7;
  static constexpr int kBehind = 3;
  static constexpr double kBetter = 0.97;
  /// Between two pairs; twice as long after each tour, up to kMostDoublings times.
  static constexpr std::chrono::milliseconds kRest{50};
  static constexpr int kMostDoublings = 6;
  /// Doublings of the rest for pairs that were given up.
  static constexpr int kMostGivenUp = 10;
  /// From the choice to the first pair.
  static constexpr std::chrono::milliseconds kFirstRest{1000};

  Challenges() = default;
  /// variants: those that challenge, in turn; the choice is not one of them. May be empty. tours: how many the choices
  /// before it have had: variants that are alike replace each other by chance, and must not be tried as often for ever.
  Challenges(std::vector<Variant> variants, SteadyClock::time_point now, int tours = 0)
      : variants_(std::move(variants)), next_(now + kFirstRest), tours_(tours) {}

  /// Returns whether a pair is due. There is a challenger then.
  bool due(SteadyClock::time_point now) const { return !variants_.empty() && now >= next_; }
  const Variant& challenger() const { return variants_[turn_]; }
  int tours() const { return tours_; }
  /// Whether the challenger runs before the choice in the next pair. It does in every second one, so that a program
  /// whose batches take turns favours neither.
  bool challenger_first() const { return pairs_ % 2 == 1; }

  /// Begins a pair. number: tells it from all others, of other objects too.
  void begin(uint64_t number, SteadyClock::time_point now);
  /// The last pair will not be complete, because batches of its size do not come. Each such pair in a row doubles the
  /// rest before the next one, up to kMostGivenUp times.
  void gave_up(SteadyClock::time_point now);
  /// Take the times of a pair; those of another pair than the last one are ignored. took_challenger() and took_choice()
  /// return the challenger if that has won by this time: it is the choice now, and this object is done.
  std::optional<Variant> took_choice(uint64_t pair, double time);
  std::optional<Variant> took_challenger(uint64_t pair, double time);

 private:
  std::optional<Variant> judge();

  std::vector<Variant> variants_;
  SteadyClock::time_point next_;
  size_t turn_ = 0;
  int tours_ = 0;
  int given_up_ = 0;  ///< pairs that were given up, in a row
  int pairs_ = 0;     ///< that are judged, of the present challenger
  int lead_ = 0;      ///< how many more of them it has won than lost
  uint64_t last_pair_ = 0;
  std::optional<double> choice_, challenger_;  ///< of the last pair
};

}  // namespace rueda::core
