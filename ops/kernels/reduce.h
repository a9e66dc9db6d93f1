#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/kernels/fold.h"
#include "runtime/base/dtype.h"
#include "runtime/base/float_mode.h"
#include "runtime/base/isa.h"
#include "runtime/base/phase_log.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// Which 16-bit values of a reduction lie in memory as f32. Such an input is rounded as it is read, such a result as it
/// is written, to the bits of a cast before or behind the reduction (compression/cast.h).
enum class HeldAsF32 : uint8_t {
  kNone,
  kAll,  ///< all inputs and results
  kOwn,  ///< one input, `ReduceTask::own`, and the second result, `also`
};

/// What to compute: out[i] = round(finish(fold of inputs[0][i], inputs[1][i], ...)).
///
/// The fold is a bracket: a left fold inside each group of inputs, then a left fold over the groups' values, in the
/// accumulator: fp32 for f16, bf16 and f32, fp64 for f64, the exact integer for integer sums and averages.
///
/// finish, in this order, each step rounded in the accumulator: average divides by `divisor`; any op multiplies by
/// `postscale` if that is not 1. The step to the 16-bit types rounds once.
/// Integers: sum and product wrap modulo 2^bits; average divides the exact sum and truncates toward zero. With a
/// postscale the exact sum (else the product, minimum, maximum or truncated average) is multiplied in fp64, cut off
/// toward zero and held at the ends of the type's range.
/// Bitwise ops work on integers and bool; a postscale multiplies their result like any other integer's.
/// Bool: any non-zero byte is true, the result is 0 or 1; sum and max are "or", product and min are "and"; postscale
/// does nothing.
/// Complex: sums part by part; the product is (ac - bd) + (ad + bc)i; divisor and postscale go to both parts.
/// Floats: min and max give NaN if any input is NaN; of -0 and +0 they give the one that comes first in the bracket.
/// Every NaN in the result is the positive quiet one without payload, so that no result depends on how a compiler
/// ordered the operands of an addition.
struct ReduceTask {
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  double postscale = 1.0;
  int64_t divisor = 1;          ///< average: the number of ranks, at least 1
  std::span<const int> groups;  ///< sizes of the bracket's groups, from 1, adding up to the inputs; if empty, one group
  PhaseLog* phases = nullptr;   ///< notes the time, unless null
  HeldAsF32 held_as_f32 = HeldAsF32::kNone;  ///< f16 and bf16 only
  int own = 0;                               ///< index of the input that kOwn means
};

/// The kernels for `isa`; for one that this processor cannot run, those of the best it can.
const KernelSet& kernels(Isa isa);

/// One reduction that runs over many stretches: looks at the task, and sets the mode of floats, once. See `reduce`.
/// Borrows the set and the task. Lives on the stack of one thread.
class Reducer {
 public:
  Reducer(const KernelSet& set, const ReduceTask& task, size_t inputs);
  Reducer(const KernelSet& set, ReduceTask&& task, size_t inputs) = delete;  // it would be gone before `run`
  /// As `reduce`, with as many inputs as said before.
  void run(const std::byte* const* inputs, std::byte* out, StoreHint hint, std::byte* also, int64_t count);

 private:
  const FloatMode mode_;  // the caller's rounding and denormal modes must not show in the result
  const KernelSet& set_;
  const ReduceTask& task_;
  const int input_count_;
  FoldRun run_;
  FoldFn fold_ = nullptr;  // null for integers, which may need more than a fold
};

/// Name of the set that `reduce` uses by default: "generic", "avx2" or "avx512".
const char* kernel_set_name();

/// Reduces `count` elements of all inputs (at least one) in one pass over memory; any thread, no locks, no allocation.
///
/// The calling thread's rounding and denormal modes do not show in the result. Buffers may lie at any address. `out`
/// and `also` may each be one of the inputs, but overlap nothing otherwise. `hint` says how `out` is stored
/// (non-temporal stores want it aligned to its element, and are fenced before the return); `also`, if not null, gets
/// the same values with plain stores. A minimum, maximum or product of inputs is postscaled as a sum is. Adasum, what
/// `why_undefined` names, a divisor below 1 or no inputs are refused above this layer; here they are bugs of the caller
/// and end the process.
void reduce(const KernelSet& set, const ReduceTask& task, std::span<const std::byte* const> inputs, std::byte* out,
            StoreHint hint, std::byte* also, int64_t count);

/// The same with the best kernels of this processor.
void reduce(const ReduceTask& task, std::span<const std::byte* const> inputs, std::byte* out, StoreHint hint,
            std::byte* also, int64_t count);

}  // namespace rueda::core
