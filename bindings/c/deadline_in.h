#pragma once
#include <chrono>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// So many seconds from now, 0 or more. A century and what is longer, infinity too, is never: a moment so far off does
/// not fit the clock.
inline Deadline deadline_in(double seconds) {
  constexpr double kCentury = 100.0 * 366 * 86400;
  if (seconds >= kCentury) return Deadline::never();
  return Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

}  // namespace rueda::core
