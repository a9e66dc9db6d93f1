// The kernel that adds up slices in the canonical order, as the CPU's kernels do.
//
//   inputs  m0 m1 | m2 m3 ...    16 bytes of each member's slice, folded inside its group, then over the groups,
//                                divided, scaled, rounded, and written in place of the own input
//
// A thread reads each byte once and needs no other thread. All threads take the same branches: types and operators are
// the launch's. The arithmetic is that of ops/kernels, so both give the same bits. The tests compile this file as C++
// too and run it on the host.
#include "ops/cuda/fold_task.h"

#include <cstdint>
#include <type_traits>

#include "compression/held_integer.h"
#include "ops/cuda/elements.cuh"

namespace rueda::cuda {
namespace {

__extension__ typedef __int128 Exact128;

/// Overflow wraps, as it does in unsigned numbers that no promotion makes signed.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

template <class T>
__device__ T added(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  } else {
    return a + b;
  }
}

template <class T>
__device__ T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  } else {
    return a * b;
  }
}

/// False for two NaN.
template <class T>
__device__ bool equal(T a, T b) {
  return a == b;
}

/// A NaN of either side stays one.
template <class T>
__device__ T stepped(core::ReduceOp op, T a, T b) {
  switch (op) {
    case core::ReduceOp::kMin: return b < a || !equal(b, b) ? b : a;
    case core::ReduceOp::kMax: return b > a || !equal(b, b) ? b : a;
    case core::ReduceOp::kProduct: return multiplied(a, b);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == core::ReduceOp::kBand) return static_cast<T>(a & b);
    if (op == core::ReduceOp::kBor) return static_cast<T>(a | b);
    if (op == core::ReduceOp::kBxor) return static_cast<T>(a ^ b);
  }
  return added(a, b);
}

/// Divides, multiplies, and makes every NaN the same one.
template <class Acc>
__device__ Acc finished_float(const FoldParameters& parameters, Acc value) {
  if (parameters.divisor != 1) value = value / static_cast<Acc>(static_cast<double>(parameters.divisor));
  if (parameters.postscale != 1.0) value = value * static_cast<Acc>(parameters.postscale);
  return equal(value, value) ? value : static_cast<Acc>(__builtin_nan(""));
}

template <class T>
struct Complex {
  T real;
  T imaginary;
};

/// The bracket over all of the slice. `open` makes an element the number that `step` folds, `close` the result.
template <class T, class Open, class Step, class Close>
__device__ void fold_slice(const FoldParameters& parameters, Open open, Step step, Close close) {
  constexpr int kAtOnce = static_cast<int>(kFoldBytes / static_cast<int64_t>(sizeof(T)));
  using Elements = Run<T, kAtOnce>;
  using Acc = decltype(open(T{}));
  const int64_t runs = parameters.bytes / kFoldBytes;
  const auto threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (int64_t run = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; run < runs; run += threads) {
    Acc total[kAtOnce];
    Acc group[kAtOnce];
    bool has_total = false;
    const auto end_group = [&] {
      for (int k = 0; k < kAtOnce; ++k) total[k] = has_total ? step(total[k], group[k]) : group[k];
      has_total = true;
    };
#pragma unroll 1
    for (uint32_t member = 0; member < parameters.members; ++member) {
      const std::byte* const from = member == parameters.own
                                        ? parameters.slice
                                        : parameters.others + static_cast<int64_t>(member) * parameters.stride;
      const Elements in = reinterpret_cast<const Elements*>(from)[run];
      const bool begins = begins_group(parameters, member);
      if (begins && member != 0) end_group();
      for (int k = 0; k < kAtOnce; ++k) group[k] = begins ? open(in.element[k]) : step(group[k], open(in.element[k]));
    }
    end_group();
    Elements out;
    for (int k = 0; k < kAtOnce; ++k) out.element[k] = close(total[k]);
    reinterpret_cast<Elements*>(parameters.slice)[run] = out;
  }
}

template <class T>
__device__ void fold_floats(const FoldParameters& parameters) {
  using Acc = decltype(widened(T{}));
  fold_slice<T>(
      parameters, [](T value) { return widened(value); },
      [&parameters](Acc a, Acc b) { return stepped(parameters.op, a, b); },
      [&parameters](Acc value) { return rounded<T>(finished_float(parameters, value)); });
}

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i: each product rounded, then their sum.
template <class T>
__device__ void fold_complex_products(const FoldParameters& parameters) {
  using Number = Complex<T>;
  fold_slice<Number>(
      parameters, [](Number value) { return value; },
      [](Number a, Number b) {
        return Number{a.real * b.real + a.imaginary * b.imaginary * T{-1},
                      a.real * b.imaginary + a.imaginary * b.real};
      },
      [&parameters](Number value) {
        return Number{finished_float(parameters, value.real), finished_float(parameters, value.imaginary)};
      });
}

/// The exact sum divided, with what is left cut off; without a scale it wraps to the type.
template <class T>
__device__ void fold_exactly(const FoldParameters& parameters) {
  using Exact = std::conditional_t<sizeof(T) == 8, Exact128, int64_t>;
  fold_slice<T>(
      parameters, [](T value) { return static_cast<Exact>(value); },
      [](Exact a, Exact b) { return static_cast<Exact>(a + b); },
      [&parameters](Exact sum) {
        if (parameters.divisor != 1) sum = sum / static_cast<Exact>(parameters.divisor);
        if (parameters.postscale == 1.0) return static_cast<T>(sum);
        return core::held_integer<T>(static_cast<double>(sum) * parameters.postscale);
      });
}

template <class T>
__device__ void fold_integers(const FoldParameters& parameters) {
  const bool adds = parameters.op == core::ReduceOp::kSum;
  if (adds && (parameters.divisor != 1 || parameters.postscale != 1.0)) return fold_exactly<T>(parameters);
  fold_slice<T>(
      parameters, [](T value) { return value; },
      [&parameters](T a, T b) { return stepped(parameters.op, a, b); },
      [&parameters](T value) {
        if (parameters.postscale == 1.0) return value;
        return core::held_integer<T>(static_cast<double>(value) * parameters.postscale);
      });
}

/// Any byte but 0 is true, and only 1 leaves.
__device__ void fold_bools(const FoldParameters& parameters) {
  fold_slice<uint8_t>(
      parameters, [](uint8_t value) { return static_cast<uint8_t>(value != 0 ? 1 : 0); },
      [&parameters](uint8_t a, uint8_t b) { return stepped(parameters.op, a, b); },
      [](uint8_t value) { return value; });
}

}  // namespace
}  // namespace rueda::cuda

extern "C" {

__global__ void __launch_bounds__(rueda::cuda::kFoldThreads)
    rueda_fold(const __grid_constant__ rueda::cuda::FoldParameters parameters) {
  using rueda::core::Dtype;
  const bool multiplies = parameters.op == rueda::core::ReduceOp::kProduct;
  switch (parameters.dtype) {
    case Dtype::kU8: return rueda::cuda::fold_integers<uint8_t>(parameters);
    case Dtype::kI8: return rueda::cuda::fold_integers<int8_t>(parameters);
    case Dtype::kU16: return rueda::cuda::fold_integers<uint16_t>(parameters);
    case Dtype::kI16: return rueda::cuda::fold_integers<int16_t>(parameters);
    case Dtype::kU32: return rueda::cuda::fold_integers<uint32_t>(parameters);
    case Dtype::kI32: return rueda::cuda::fold_integers<int32_t>(parameters);
    case Dtype::kU64: return rueda::cuda::fold_integers<uint64_t>(parameters);
    case Dtype::kI64: return rueda::cuda::fold_integers<int64_t>(parameters);
    case Dtype::kF16: return rueda::cuda::fold_floats<rueda::core::F16>(parameters);
    case Dtype::kBf16: return rueda::cuda::fold_floats<rueda::core::Bf16>(parameters);
    case Dtype::kF32: return rueda::cuda::fold_floats<float>(parameters);
    case Dtype::kF64: return rueda::cuda::fold_floats<double>(parameters);
    case Dtype::kC64:
      if (multiplies) return rueda::cuda::fold_complex_products<float>(parameters);
      return rueda::cuda::fold_floats<float>(parameters);
    case Dtype::kC128:
      if (multiplies) return rueda::cuda::fold_complex_products<double>(parameters);
      return rueda::cuda::fold_floats<double>(parameters);
    default: return rueda::cuda::fold_bools(parameters);
  }
}

}  // extern "C"
