#pragma once
#include <type_traits>

#include "runtime/base/half.h"

/// How kernels load, widen and round elements. For the .cu files, and for the tests that compile them for the host.
namespace rueda::cuda {
namespace {

using core::Bf16;
using core::F16;

/// The type in which an element is computed.
__device__ float widened(float value) { return value; }
__device__ double widened(double value) { return value; }

/// The GPU's own conversions, which are one instruction each, but that they forget the bits of a NaN.
__device__ float widened(F16 value) {
#ifdef __CUDA_ARCH__
  if ((value.bits & 0x7fffu) <= 0x7c00u) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  }
#endif
  return core::f16_to_f32(value);
}
__device__ float widened(Bf16 value) { return core::bf16_to_f32(value); }

__device__ F16 narrowed(float value) {
#ifdef __CUDA_ARCH__
  if (value == value) {
    F16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
  }
#endif
  return core::f32_to_f16(value);
}

template <class To, class From>
__device__ To rounded(From value) {
  if constexpr (std::is_same_v<To, F16>) {
    if constexpr (std::is_same_v<From, double>) return core::f64_to_f16(value);
    return narrowed(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    if constexpr (std::is_same_v<From, double>) return core::f64_to_bf16(value);
    return core::f32_to_bf16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// So many elements that a thread moves at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Run {
  T element[kCount];
};

}  // namespace
}  // namespace rueda::cuda
