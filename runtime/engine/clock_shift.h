#pragma once
#include <chrono>
#include <optional>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// How far rank 0's steady clock is ahead of this rank's, by Cristian's method (F. Cristian, "Probabilistic clock
/// synchronization", 1989): the answer was given halfway between asking and hearing, give or take half the round trip,
/// so the shortest round trip counts. An old one loses its weight, because clocks drift. Pure; `TimelineProtocol` owns
/// it.
class ClockShift {
 public:
  /// Takes an answer: asked and heard by this rank's clock, given by rank 0's.
  void answer(SteadyClock::time_point asked, SteadyClock::time_point answered, SteadyClock::time_point now) {
    if (now < asked) return;
    const std::chrono::nanoseconds trip = now - asked;
    if (shift_ && trip > best_) {
      best_ += best_ / 8;
      return;
    }
    best_ = trip;
    shift_ = answered - (asked + trip / 2);
  }
  /// Empty until the first answer.
  std::optional<std::chrono::nanoseconds> shift() const { return shift_; }

 private:
  std::optional<std::chrono::nanoseconds> shift_;
  std::chrono::nanoseconds best_{0};
};

}  // namespace rueda::core
