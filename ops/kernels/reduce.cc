// From a task to a kernel: checks the task, prepares the finish, and picks the kernel by dtype and fold.
//
//   floats, complex    one pass: fold in the accumulator, divide, multiply, round
//   bool               one pass; no finish
//   integers           one pass that wraps; averages and scaled sums go through exact_integers.cc, other scaled results
//                      through a second pass
//   16-bit floats      as floats: the kernels load them into fp32; those held as fp32 are rounded in registers
//
// A task that is not defined ends the process here: agreement has refused it long before, so it is a bug.
#include "ops/kernels/reduce.h"

#include <cmath>
#include <cstdlib>

#include "compression/cast.h"
#include "ops/kernels/exact_integers.h"
#include "runtime/base/reduction.h"

namespace rueda::core {
namespace {

/// An average is a sum whose finish divides.
Fold fold_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum: return Fold::kSum;
    case ReduceOp::kMin: return Fold::kMin;
    case ReduceOp::kMax: return Fold::kMax;
    case ReduceOp::kProduct: return Fold::kProduct;
    case ReduceOp::kBand: return Fold::kAnd;
    case ReduceOp::kBor: return Fold::kOr;
    case ReduceOp::kBxor: return Fold::kXor;
    case ReduceOp::kAdasum: break;
  }
  std::abort();
}

bool power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

/// Cheap beside the fold: once a call, not once an element.
void check(const ReduceTask& task, size_t inputs) {
  if (inputs == 0 || !valid(task.dtype) || !is_defined(task.op, task.dtype)) std::abort();
  if (task.op == ReduceOp::kAverage && task.divisor < 1) std::abort();
  if (task.held_as_f32 != HeldAsF32::kNone && task.dtype != Dtype::kF16 && task.dtype != Dtype::kBf16) std::abort();
}

const FoldFn (&folds_of(const KernelSet& set, HeldAsF32 held))[kDtypeCount][kFoldCount] {
  switch (held) {
    case HeldAsF32::kAll: return set.rounded;
    case HeldAsF32::kOwn: return set.own_rounded;
    case HeldAsF32::kNone: break;
  }
  return set.fold;
}

/// A division by a power of two equals the multiplication by its reciprocal to the bit and costs a tenth.
void set_finish(const ReduceTask& task, FoldRun& run) {
  if (task.op == ReduceOp::kAverage) run.divisor = static_cast<double>(task.divisor);
  run.factor = task.postscale;
  if (run.factor == 1.0 && run.divisor != 1.0 && power_of_two(task.divisor)) {
    run.factor = 1.0 / run.divisor;
    run.divisor = 1.0;
  }
}

void reduce_integers(const KernelSet& set, const ReduceTask& task, FoldRun& run, int input_count) {
  const CastSet& passes = casts(set.isa);
  const bool sum = fold_of(task.op) == Fold::kSum;
  if (task.op == ReduceOp::kAverage || (sum && task.postscale != 1.0)) {
    return reduce_exactly(passes, task, run, input_count);
  }
  set.fold[static_cast<size_t>(task.dtype)][static_cast<size_t>(fold_of(task.op))](run);
  if (task.postscale == 1.0) return;
  // A minimum, maximum, product or pattern of bits is an integer already: the rules of `cast` scale it.
  cast(passes, CastTask{task.dtype, task.dtype, task.postscale, run.hint}, run.out, run.out, run.count);
  if (run.also != nullptr) cast(passes, CastTask{task.dtype, task.dtype}, run.out, run.also, run.count);
}

}  // namespace

const char* kernel_set_name() { return name_of(best_isa()); }

Reducer::Reducer(const KernelSet& set, const ReduceTask& task, size_t inputs)
    : set_(set), task_(task), input_count_(static_cast<int>(inputs)) {
  check(task, inputs);
  // Without groups the bracket is one group of all inputs.
  run_.groups = task.groups.empty() ? &input_count_ : task.groups.data();
  run_.group_count = task.groups.empty() ? 1 : static_cast<int>(task.groups.size());
  run_.own = task.own;
  const bool fractions = is_float(part_of(task.dtype));
  if (task.dtype != Dtype::kBool && !fractions) return;
  if (fractions) set_finish(task, run_);
  fold_ = folds_of(set, task.held_as_f32)[static_cast<size_t>(task.dtype)][static_cast<size_t>(fold_of(task.op))];
}

void Reducer::run(const std::byte* const* inputs, std::byte* out, StoreHint hint, std::byte* also, int64_t count) {
  if (count <= 0) return;
  run_.inputs = inputs;
  run_.out = out;
  run_.also = also;
  run_.count = count;
  run_.hint = hint;
  if (fold_ != nullptr) return fold_(run_);
  reduce_integers(set_, task_, run_, input_count_);
}

void reduce(const KernelSet& set, const ReduceTask& task, std::span<const std::byte* const> inputs, std::byte* out,
            StoreHint hint, std::byte* also, int64_t count) {
  Reducer(set, task, inputs.size()).run(inputs.data(), out, hint, also, count);
}

void reduce(const ReduceTask& task, std::span<const std::byte* const> inputs, std::byte* out, StoreHint hint,
            std::byte* also, int64_t count) {
  const PhaseScope reducing(task.phases, WorkPhase::kReduce);
  reduce(kernels(best_isa()), task, inputs, out, hint, also, count);
}

}  // namespace rueda::core
