#pragma once
#include <algorithm>
#include <chrono>

namespace rueda::core {

using SteadyClock = std::chrono::steady_clock;

/// The moment at which a wait gives up, or never. A value: any thread.
class Deadline {
 public:
  static Deadline never() { return Deadline(SteadyClock::time_point::max()); }
  static Deadline after(std::chrono::nanoseconds delay) { return Deadline(SteadyClock::now() + delay); }
  static Deadline at(SteadyClock::time_point when) { return Deadline(when); }

  bool is_never() const { return when_ == SteadyClock::time_point::max(); }
  bool passed() const { return !is_never() && SteadyClock::now() >= when_; }
  SteadyClock::time_point when() const { return when_; }
  /// Time left, never negative, at most `cap`.
  std::chrono::nanoseconds left(std::chrono::nanoseconds cap) const {
    if (is_never()) return cap;
    const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(when_ - SteadyClock::now());
    return std::clamp(rest, std::chrono::nanoseconds(0), cap);
  }
  Deadline later(Deadline other) const { return when_ < other.when_ ? other : *this; }
  Deadline earlier(Deadline other) const { return when_ < other.when_ ? *this : other; }

 private:
  explicit Deadline(SteadyClock::time_point when) : when_(when) {}
  SteadyClock::time_point when_;
};

}  // namespace rueda::core
