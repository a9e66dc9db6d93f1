#include "runtime/base/half.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/float_reference.h"

using namespace rueda::core;
using rueda::test::kBfloat16;
using rueda::test::kBinary16;
using rueda::test::nearest;
using rueda::test::value_of;

namespace {

bool is_nan(uint16_t bits, int infinity) { return (bits & 0x7fff) > infinity; }

/// Values around every point where rounding to 16 bits decides: each value of the format, the midpoint to its
/// neighbour, and the nearest fp64 on both sides of that midpoint.
template <class Check>
void for_values_around_ties(rueda::test::SmallFloat format, int infinity, Check check) {
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value_of(format, static_cast<uint16_t>(bits));
    const double high = bits + 1 < infinity ? value_of(format, static_cast<uint16_t>(bits + 1))
                                            : 2 * low - value_of(format, static_cast<uint16_t>(bits - 1));
    const double middle = low + (high - low) / 2;
    for (const double value : {low, middle, std::nextafter(middle, 0.0), std::nextafter(middle, HUGE_VAL)}) {
      check(value);
      check(-value);
    }
  }
}

}  // namespace

TEST_CASE("every f16 widens to its value, and back to its bits") {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const float wide = f16_to_f32(half);
    if (is_nan(half.bits, 0x7c00)) {
      wrong += !std::isnan(wide) || f32_to_f16(wide).bits != (half.bits | 0x200);
    } else {
      wrong += static_cast<double>(wide) != value_of(kBinary16, half.bits) || f32_to_f16(wide).bits != half.bits;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every bf16 widens to its value, and back to its bits") {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const Bf16 half{static_cast<uint16_t>(bits)};
    const float wide = bf16_to_f32(half);
    if (is_nan(half.bits, 0x7f80)) {
      wrong += !std::isnan(wide) || f32_to_bf16(wide).bits != (half.bits | 0x40);
    } else {
      wrong += static_cast<double>(wide) != value_of(kBfloat16, half.bits) || f32_to_bf16(wide).bits != half.bits;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("fp32 rounds to the nearest 16-bit value, ties to even") {
  int wrong = 0;
  for_values_around_ties(kBinary16, 0x7c00, [&](double value) {
    const float single = static_cast<float>(value);
    wrong += f32_to_f16(single).bits != nearest(kBinary16, static_cast<double>(single));
  });
  for_values_around_ties(kBfloat16, 0x7f80, [&](double value) {
    const float single = static_cast<float>(value);
    wrong += f32_to_bf16(single).bits != nearest(kBfloat16, static_cast<double>(single));
  });
  CHECK(wrong == 0);
}

TEST_CASE("fp64 rounds to 16 bits once, where fp32 in between would round twice") {
  int wrong = 0;
  int twice_differs = 0;
  for_values_around_ties(kBinary16, 0x7c00, [&](double value) {
    wrong += f64_to_f16(value).bits != nearest(kBinary16, value);
    twice_differs += f32_to_f16(static_cast<float>(value)).bits != nearest(kBinary16, value);
  });
  for_values_around_ties(kBfloat16, 0x7f80, [&](double value) {
    wrong += f64_to_bf16(value).bits != nearest(kBfloat16, value);
    twice_differs += f32_to_bf16(static_cast<float>(value)).bits != nearest(kBfloat16, value);
  });
  CHECK(wrong == 0);
  CHECK(twice_differs > 10000);
}

TEST_CASE("the ends of fp64 narrow to zero and infinity with their sign") {
  for (const double sign : {1.0, -1.0}) {
    for (const double value : {0.0, 5e-324, 1e-310, 1e-46, 1e39, 1.7e308, HUGE_VAL}) {
      CHECK(f64_to_f16(sign * value).bits == nearest(kBinary16, sign * value));
      CHECK(f64_to_bf16(sign * value).bits == nearest(kBfloat16, sign * value));
    }
  }
}

TEST_CASE("a NaN stays a quiet NaN and keeps its sign and leading payload") {
  const auto signalling = std::bit_cast<float>(0xff812345u);
  CHECK(f32_to_f16(signalling).bits == 0xfe09);
  CHECK(f32_to_bf16(signalling).bits == 0xffc1);
  CHECK(f32_to_f16(std::bit_cast<float>(0x7f800001u)).bits == 0x7e00);
  CHECK(f32_to_bf16(std::bit_cast<float>(0x7f800001u)).bits == 0x7fc0);
  CHECK(std::bit_cast<uint32_t>(f16_to_f32(F16{0x7c01})) == 0x7fc02000u);
  CHECK(f64_to_f16(std::numeric_limits<double>::quiet_NaN()).bits == 0x7e00);
}
