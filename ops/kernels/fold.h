#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/isa.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// The kernels' view of a task: spans taken apart, the finish prepared. Files built for newer processors see only this.
struct FoldRun {
  const std::byte* const* inputs = nullptr;
  const int* groups = nullptr;
  int group_count = 0;
  std::byte* out = nullptr;
  std::byte* also = nullptr;
  int64_t count = 0;
  int own = 0;           ///< index of the input that lies in memory as f32, for KernelSet::own_rounded
  double divisor = 1.0;  ///< 1: none
  double factor = 1.0;   ///< 1: none
  StoreHint hint = StoreHint::kPlain;
};

/// The folds that kernels are written for; average is a sum with a divisor.
enum class Fold { kSum = 0, kMin = 1, kMax = 2, kProduct = 3, kAnd = 4, kOr = 5, kXor = 6 };
inline constexpr int kFoldCount = 7;

using FoldFn = void (*)(const FoldRun& run);

/// The kernels built for one instruction set. Sets agree to the bit, NaN included. Immutable; any thread.
struct KernelSet {
  Isa isa;
  /// By dtype and fold; null if the fold is not defined. Divisor and factor are applied for floats and complex only.
  FoldFn fold[kDtypeCount][kFoldCount];
  /// Of f16 and bf16 values that lie in memory as f32; null for other types.
  FoldFn rounded[kDtypeCount][kFoldCount];
  /// Of f16 and bf16 values. Only those of input `own` and of the result at `also` lie in memory as f32.
  FoldFn own_rounded[kDtypeCount][kFoldCount];
};

/// One set per file that builds one; `kernels` knows which of them a build has.
extern const KernelSet kGenericKernels;
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;

}  // namespace rueda::core
