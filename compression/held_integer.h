#pragma once
#include <limits>

#include "runtime/base/dtype.h"

namespace rueda::core {

/// `value` cut off toward zero and held at the ends of T's range; NaN becomes 0. What every scaled integer goes
/// through, in kernels for GPUs too.
template <class T>
constexpr T held_integer(double value) {
  // 2^bits of the magnitude: the first double past the range, exact for every T.
  constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (std::numeric_limits<T>::digits - 1));
  if (value != value) return 0;
  if (value >= kEnd) return std::numeric_limits<T>::max();
  if constexpr (std::numeric_limits<T>::is_signed) {
    if (value <= -kEnd) return std::numeric_limits<T>::min();
  } else {
    if (value <= -1.0) return 0;
  }
  return static_cast<T>(value);
}

}  // namespace rueda::core
