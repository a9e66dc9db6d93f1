#pragma once
#include <immintrin.h>

#include "runtime/base/vectors.h"

namespace rueda::core {

/// 64-byte vectors. Included by files built with -mavx512f, bw, dq, vl and -mf16c only.
struct Avx512Vectors {
  static constexpr int kBytes = 64;

  template <class Raw>
  [[gnu::always_inline]] static void stream(std::byte* to, Raw raw) {
    if constexpr (sizeof(Raw) == 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), __builtin_bit_cast(__m512i, raw));
    } else if constexpr (sizeof(Raw) == 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, raw));
    } else {
      static_assert(sizeof(Raw) == 16);
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, raw));
    }
  }
  [[gnu::always_inline]] static void fence() { _mm_sfence(); }

  /// The plain 512-bit conversions read an undefined register, which GCC 12 warns of; a full mask costs nothing.
  static constexpr __mmask16 kAll = 0xffff;

  [[gnu::always_inline]] static Vec<float, 64> widen_f16(Vec<uint16_t, 32> raw) {
    return __builtin_bit_cast(Vec<float, 64>, _mm512_maskz_cvtph_ps(kAll, __builtin_bit_cast(__m256i, raw)));
  }
  [[gnu::always_inline]] static Vec<float, 32> widen_f16(Vec<uint16_t, 16> raw) {
    return __builtin_bit_cast(Vec<float, 32>, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, raw)));
  }
  [[gnu::always_inline]] static Vec<uint16_t, 32> narrow_f16(Vec<float, 64> wide) {
    const __m512 whole = __builtin_bit_cast(__m512, wide);
    return __builtin_bit_cast(Vec<uint16_t, 32>, _mm512_maskz_cvtps_ph(kAll, whole, _MM_FROUND_TO_NEAREST_INT));
  }
  [[gnu::always_inline]] static Vec<uint16_t, 16> narrow_f16(Vec<float, 32> wide) {
    const __m256 whole = __builtin_bit_cast(__m256, wide);
    return __builtin_bit_cast(Vec<uint16_t, 16>, _mm256_cvtps_ph(whole, _MM_FROUND_TO_NEAREST_INT));
  }
};

}  // namespace rueda::core
