#pragma once
#include <algorithm>
#include <chrono>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Converts seconds (0 or more) to a time to wait. A century or more, and infinity, become zero, which means no limit:
/// so distant a moment does not fit the clock.
inline std::chrono::nanoseconds timeout_of(double seconds) {
  constexpr double kCentury = 100.0 * 366 * 86400;
  constexpr std::chrono::nanoseconds kLeast{1};
  if (seconds >= kCentury) return std::chrono::nanoseconds(0);
  return std::max(kLeast, std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

/// Returns the deadline that many seconds from now; never, if `timeout_of` is zero.
inline Deadline deadline_in(double seconds) {
  const std::chrono::nanoseconds timeout = timeout_of(seconds);
  return timeout.count() == 0 ? Deadline::never() : Deadline::after(timeout);
}

}  // namespace rueda::core
