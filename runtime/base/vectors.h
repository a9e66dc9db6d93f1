#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/half.h"

/// Vectors of elements for the kernels: one text, built once per instruction set.
///
/// `Vectors` stands for the instruction set: `kBytes`, the width of a register, and what no compiler finds by itself
/// (conversions of f16, stores past the cache). It is a parameter of every template here and of every kernel, and only
/// files built with the same flags see the type: so the linker never mixes functions built for different processors.
/// For the same reason the kernels use raw pointers and built-in functions only, no function of the standard library.
namespace rueda::core {

template <class T, int kBytes>
struct VecOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};
/// A vector of kBytes bytes of T (the vector extension of GCC and Clang).
template <class T, int kBytes>
using Vec = typename VecOf<T, kBytes>::Type;

/// Marks a byte that holds a truth value: any non-zero one is read as true.
struct Bool {
  uint8_t byte;
};

/// Marks an fp32 in memory that is rounded to a 16-bit float, F16 or Bf16, whenever it is read or written.
template <class Short>
struct Rounded {
  float value;
};

/// Marks two adjacent numbers: real part, imaginary part.
template <class Part>
struct Complex {
  Part real;
  Part imaginary;
};

template <class V>
[[gnu::always_inline]] inline V load_raw(const std::byte* from) {
  V raw;
  __builtin_memcpy(&raw, from, sizeof raw);
  return raw;
}

/// kElements elements of type Element: their form in memory (`kStride` bytes each) and in the accumulator (`kScalars`
/// scalars each). store writes through the cache, stream past it; stream needs an address aligned to the bytes that it
/// writes.
template <class Vectors, class Element, int kElements>
struct ElementVector {
  static constexpr int kStride = sizeof(Element);
  static constexpr int kScalars = 1;
  using Scalar = Element;
  using Acc = Vec<Element, kElements * kStride>;
  [[gnu::always_inline]] static Acc load(const std::byte* from) { return load_raw<Acc>(from); }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) { __builtin_memcpy(to, &value, sizeof value); }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) { Vectors::stream(to, value); }
};

template <class Vectors, class Part, int kElements>
struct ElementVector<Vectors, Complex<Part>, kElements> : ElementVector<Vectors, Part, 2 * kElements> {
  static constexpr int kStride = sizeof(Complex<Part>);
  static constexpr int kScalars = 2;
};

template <class Vectors, int kElements>
struct ElementVector<Vectors, Bool, kElements> {
  static constexpr int kStride = 1;
  static constexpr int kScalars = 1;
  using Scalar = uint8_t;
  using Acc = Vec<uint8_t, kElements>;
  [[gnu::always_inline]] static Acc load(const std::byte* from) {
    const Acc raw = load_raw<Acc>(from);
    return __builtin_bit_cast(Acc, raw != Acc{}) & (Acc{} + uint8_t{1});
  }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) { __builtin_memcpy(to, &value, sizeof value); }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) { Vectors::stream(to, value); }
};

template <class Vectors, int kElements>
struct ElementVector<Vectors, F16, kElements> {
  static constexpr int kStride = 2;
  static constexpr int kScalars = 1;
  using Scalar = float;
  using Raw = Vec<uint16_t, 2 * kElements>;
  using Acc = Vec<float, 4 * kElements>;
  [[gnu::always_inline]] static Acc load(const std::byte* from) { return Vectors::widen_f16(load_raw<Raw>(from)); }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) {
    const Raw raw = Vectors::narrow_f16(value);
    __builtin_memcpy(to, &raw, sizeof raw);
  }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) {
    Vectors::stream(to, Vectors::narrow_f16(value));
  }
  [[gnu::always_inline]] static Acc round(Acc value) { return Vectors::widen_f16(Vectors::narrow_f16(value)); }
};

template <class Vectors, int kElements>
struct ElementVector<Vectors, Bf16, kElements> {
  static constexpr int kStride = 2;
  static constexpr int kScalars = 1;
  using Scalar = float;
  using Raw = Vec<uint16_t, 2 * kElements>;
  using Bits = Vec<uint32_t, 4 * kElements>;
  using Acc = Vec<float, 4 * kElements>;
  [[gnu::always_inline]] static Acc load(const std::byte* from) {
    return __builtin_bit_cast(Acc, __builtin_convertvector(load_raw<Raw>(from), Bits) << 16);
  }
  /// The upper halves hold the rounded values, the lower ones anything.
  [[gnu::always_inline]] static Bits upper(Acc value) {
    const Bits bits = __builtin_bit_cast(Bits, value);
    const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const Bits quiet = bits | 0x400000u;
    return value == value ? rounded : quiet;  // NOLINT(misc-redundant-expression): a NaN differs from itself
  }
  [[gnu::always_inline]] static Raw narrow(Acc value) { return __builtin_convertvector(upper(value) >> 16, Raw); }
  [[gnu::always_inline]] static Acc round(Acc value) { return __builtin_bit_cast(Acc, upper(value) & 0xffff0000u); }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) {
    const Raw raw = narrow(value);
    __builtin_memcpy(to, &raw, sizeof raw);
  }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) { Vectors::stream(to, narrow(value)); }
};

template <class Vectors, class Short, int kElements>
struct ElementVector<Vectors, Rounded<Short>, kElements> {
  static constexpr int kStride = 4;
  static constexpr int kScalars = 1;
  using Scalar = float;
  using Wide = ElementVector<Vectors, float, kElements>;
  using Narrow = ElementVector<Vectors, Short, kElements>;
  using Acc = typename Wide::Acc;
  [[gnu::always_inline]] static Acc load(const std::byte* from) { return Narrow::round(Wide::load(from)); }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) { Wide::store(to, Narrow::round(value)); }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) { Wide::stream(to, Narrow::round(value)); }
};

/// Bytes of one accumulator of an element.
template <class Element>
inline constexpr int kAccBytes = sizeof(Element);
template <>
inline constexpr int kAccBytes<F16> = 4;
template <>
inline constexpr int kAccBytes<Bf16> = 4;

/// The first `n` < kElements elements at `from`; the other elements hold zero. Touches no byte beyond them.
template <class L>
[[gnu::always_inline]] inline typename L::Acc load_part(const std::byte* from, int64_t n) {
  alignas(64) std::byte whole[64] = {};
  __builtin_memcpy(whole, from, static_cast<size_t>(n * L::kStride));
  return L::load(whole);
}

template <class L>
[[gnu::always_inline]] inline void store_part(std::byte* to, typename L::Acc value, int64_t n) {
  alignas(64) std::byte whole[64];
  L::store(whole, value);
  __builtin_memcpy(to, whole, static_cast<size_t>(n * L::kStride));
}

/// Returns how many elements of `stride` bytes there are between `to` and the next multiple of `bytes`; -1 if no
/// element begins at such an address.
template <class Vectors>
[[gnu::always_inline]] inline int64_t elements_to_alignment(const std::byte* to, int64_t stride, int64_t bytes) {
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(bytes));
  const int64_t missing = past == 0 ? 0 : bytes - past;
  return missing % stride == 0 ? missing / stride : -1;
}

}  // namespace rueda::core
