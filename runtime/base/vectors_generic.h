#pragma once
#include "runtime/base/vectors.h"

namespace rueda::core {

/// Sixteen-byte vectors that every processor runs. Nothing here goes past the cache: a stream is a store.
struct GenericVectors {
  static constexpr int kBytes = 16;

  template <class Raw>
  [[gnu::always_inline]] static void stream(std::byte* to, Raw raw) {
    __builtin_memcpy(to, &raw, sizeof raw);
  }
  [[gnu::always_inline]] static void fence() {}

  /// The conversions of runtime/base/half.h, every case computed and the right one chosen.
  template <class Raw>
  [[gnu::always_inline]] static auto widen_f16(Raw raw) {
    constexpr int kBytesWide = 2 * sizeof(Raw);
    using Single = Vec<float, kBytesWide>;
    using Bits = Vec<int32_t, kBytesWide>;
    const Bits bits = __builtin_convertvector(raw, Bits);
    const Bits rest = bits & 0x7fff;
    const Bits normal = (rest << 13) + 0x38000000;
    const Bits denormal = __builtin_bit_cast(Bits, __builtin_convertvector(rest, Single) * 0x1p-24f);
    const Bits special = (normal + 0x38000000) | ((rest > 0x7c00) & 0x400000);
    const Bits magnitude = rest < 0x0400 ? denormal : (rest < 0x7c00 ? normal : special);
    return __builtin_bit_cast(Single, magnitude | ((bits & 0x8000) << 16));
  }

  template <class Wide>
  [[gnu::always_inline]] static auto narrow_f16(Wide wide) {
    using Bits = Vec<int32_t, sizeof(Wide)>;
    using Raw = Vec<uint16_t, sizeof(Wide) / 2>;
    const Bits bits = __builtin_bit_cast(Bits, wide);
    const Bits rest = bits & 0x7fffffff;
    const Bits normal = (rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13;
    const Bits denormal = __builtin_bit_cast(Bits, __builtin_bit_cast(Wide, rest) + 0.5f) - 0x3f000000;
    const Bits nan = ((rest >> 13) & 0x3ff) | 0x7e00;
    const Bits infinite = Bits{} + 0x7c00;
    const Bits large = rest > 0x7f800000 ? nan : infinite;
    const Bits magnitude = rest < 0x38800000 ? denormal : (rest < 0x47800000 ? normal : large);
    return __builtin_convertvector(magnitude | ((bits >> 16) & 0x8000), Raw);
  }
};

}  // namespace rueda::core
