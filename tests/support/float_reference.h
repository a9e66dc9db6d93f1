#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rueda::test {

/// A 16-bit float by its two widths: binary16 is {5, 10}, bfloat16 {8, 7}.
struct SmallFloat {
  int exponent_bits;
  int fraction_bits;
};
inline constexpr SmallFloat kBinary16{5, 10};
inline constexpr SmallFloat kBfloat16{8, 7};

/// What the bits mean, by the definition of the format.
inline double value_of(SmallFloat format, uint16_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = (bits >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const int hidden = exponent == 0 ? 0 : 1 << format.fraction_bits;
  return sign * std::ldexp(fraction + hidden, (exponent == 0 ? 1 : exponent) - bias - format.fraction_bits);
}

/// The nearest value of the format, ties to the even one, as bits; any NaN gives the positive quiet one.
inline uint16_t nearest(SmallFloat format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | (1 << (format.fraction_bits - 1)));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (size == 0) return static_cast<uint16_t>(sign);
  if (std::isinf(size)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  // In units of the last place, so that rounding to an integer is the rounding of the format.
  const double units = std::nearbyint(std::ldexp(size, format.fraction_bits - exponent));
  const double bits = units + std::ldexp(exponent + bias - 1, format.fraction_bits);
  return static_cast<uint16_t>(sign | static_cast<int>(std::fmin(bits, infinity)));
}

}  // namespace rueda::test
