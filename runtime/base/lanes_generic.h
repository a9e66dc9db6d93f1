#pragma once
#include "runtime/base/lanes.h"

namespace rueda::core {

/// Sixteen-byte vectors that every processor runs. Nothing here goes past the cache: a stream is a store.
struct GenericVectors {
  static constexpr int kBytes = 16;

  template <class Raw>
  [[gnu::always_inline]] static void stream(std::byte* to, Raw raw) {
    __builtin_memcpy(to, &raw, sizeof raw);
  }
  [[gnu::always_inline]] static void fence() {}

  template <class Raw>
  [[gnu::always_inline]] static auto widen_f16(Raw raw) {
    constexpr int kLanes = sizeof(Raw) / 2;
    Vec<float, 4 * kLanes> wide{};
    for (int lane = 0; lane < kLanes; ++lane) wide[lane] = f16_to_f32(F16{raw[lane]});
    return wide;
  }

  template <class Wide>
  [[gnu::always_inline]] static auto narrow_f16(Wide wide) {
    constexpr int kLanes = sizeof(Wide) / 4;
    Vec<uint16_t, 2 * kLanes> raw{};
    for (int lane = 0; lane < kLanes; ++lane) raw[lane] = f32_to_f16(wide[lane]).bits;
    return raw;
  }
};

}  // namespace rueda::core
