#pragma once
#include <cstdint>

/// Scalar conversions between the 16-bit floats and fp32 or fp64, equal to the bit to what F16C does.
///
/// All of them round to nearest, ties to even, once; overflow becomes infinity, denormals are kept, the sign of zero
/// too. A NaN stays a NaN: quiet after narrowing and after widening from f16, the leading payload bits kept.
/// `always_inline` is for correctness: the files built for AVX use these functions too, and no copy of them built for
/// a newer processor may stand in for the one that every processor can run. `constexpr` lets kernels for GPUs use them.
namespace rueda::core {

/// The bits of an IEEE binary16 and of a bfloat16 value: types of their own, so that kernels can be told apart by type.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

[[gnu::always_inline]] constexpr float f16_to_f32(F16 half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000u) << 16;
  const uint32_t rest = half.bits & 0x7fffu;
  if (rest >= 0x7c00u) {
    const uint32_t quiet = rest > 0x7c00u ? 0x400000u : 0u;
    return __builtin_bit_cast(float, sign | 0x7f800000u | quiet | (rest << 13));
  }
  if (rest >= 0x0400u) return __builtin_bit_cast(float, sign | ((rest << 13) + 0x38000000u));
  const float magnitude = static_cast<float>(rest) * 0x1p-24f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
}

[[gnu::always_inline]] constexpr F16 f32_to_f16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return F16{static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu))};
  if (rest >= 0x47800000u) return F16{static_cast<uint16_t>(sign | 0x7c00u)};
  if (rest < 0x38800000u) {
    // A denormal half: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the addition.
    const float shifted = __builtin_bit_cast(float, rest) + 0.5f;
    return F16{static_cast<uint16_t>(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u);
  return F16{static_cast<uint16_t>(sign | (rounded >> 13))};
}

/// Widening a bfloat16 moves bits only; a signalling NaN stays one.
[[gnu::always_inline]] constexpr float bf16_to_f32(Bf16 value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
}

[[gnu::always_inline]] constexpr Bf16 f32_to_bf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return Bf16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// fp64 to fp32, rounded to odd: truncated, and the last bit set if anything was lost. A value so rounded rounds to 16
/// bits as the fp64 value itself would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
[[gnu::always_inline]] constexpr float f64_to_f32_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const uint32_t bits = __builtin_bit_cast(uint32_t, nearest);
  const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  return __builtin_bit_cast(float, (away ? bits - 1u : bits) | 1u);
}

[[gnu::always_inline]] constexpr F16 f64_to_f16(double value) { return f32_to_f16(f64_to_f32_odd(value)); }
[[gnu::always_inline]] constexpr Bf16 f64_to_bf16(double value) { return f32_to_bf16(f64_to_f32_odd(value)); }

}  // namespace rueda::core
