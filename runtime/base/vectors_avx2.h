#pragma once
#include <immintrin.h>

#include "runtime/base/vectors.h"

namespace rueda::core {

/// 32-byte vectors with F16C. Included by files built with -mavx2 -mf16c only.
struct Avx2Vectors {
  static constexpr int kBytes = 32;

  template <class Raw>
  [[gnu::always_inline]] static void stream(std::byte* to, Raw raw) {
    if constexpr (sizeof(Raw) == 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, raw));
    } else if constexpr (sizeof(Raw) == 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, raw));
    } else {
      static_assert(sizeof(Raw) == 8);
      _mm_stream_si64(reinterpret_cast<long long*>(to), __builtin_bit_cast(long long, raw));
    }
  }
  [[gnu::always_inline]] static void fence() { _mm_sfence(); }

  [[gnu::always_inline]] static Vec<float, 32> widen_f16(Vec<uint16_t, 16> raw) {
    return __builtin_bit_cast(Vec<float, 32>, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, raw)));
  }
  [[gnu::always_inline]] static Vec<float, 16> widen_f16(Vec<uint16_t, 8> raw) {
    const __m128i low = _mm_cvtsi64_si128(__builtin_bit_cast(long long, raw));
    return __builtin_bit_cast(Vec<float, 16>, _mm_cvtph_ps(low));
  }
  [[gnu::always_inline]] static Vec<uint16_t, 16> narrow_f16(Vec<float, 32> wide) {
    const __m256 whole = __builtin_bit_cast(__m256, wide);
    return __builtin_bit_cast(Vec<uint16_t, 16>, _mm256_cvtps_ph(whole, _MM_FROUND_TO_NEAREST_INT));
  }
  [[gnu::always_inline]] static Vec<uint16_t, 8> narrow_f16(Vec<float, 16> wide) {
    const __m128i low = _mm_cvtps_ph(__builtin_bit_cast(__m128, wide), _MM_FROUND_TO_NEAREST_INT);
    return __builtin_bit_cast(Vec<uint16_t, 8>, static_cast<long long>(_mm_cvtsi128_si64(low)));
  }
};

}  // namespace rueda::core
