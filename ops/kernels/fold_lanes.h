#pragma once
#include "ops/kernels/fold.h"
#include "runtime/base/lanes.h"

/// The folds, written once and built per instruction set by the files that include this (see runtime/base/lanes.h).
///
///   inputs  a ─┬─┬─┬─┐   four registers of each input, folded by the bracket,
///           b ─┼─┼─┼─┤   finished, stored, before the next four: one pass,
///           c ─┴─┴─┴─┘   every line of every buffer touched once
namespace rueda::core {

template <class Vectors, class Acc>
struct SumStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return a + b; }
};
template <class Vectors, class Acc>
struct ProductStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return a * b; }
};
/// The last condition takes a NaN from `b`; one in `a` stays, because no comparison with it holds.
template <class Vectors, class Acc>
struct MinStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return ((b < a) | (b != b)) ? b : a; }
};
template <class Vectors, class Acc>
struct MaxStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return ((b > a) | (b != b)) ? b : a; }
};

/// The left fold of `size` inputs, kRegisters registers of each. `load(k, r)` reads register r of the k-th of them.
template <class Vectors, class L, class Step, int kRegisters, class Load>
[[gnu::always_inline]] inline void fold_group(int size, typename L::Acc (&value)[kRegisters], Load load) {
  for (int r = 0; r < kRegisters; ++r) value[r] = load(0, r);
  for (int k = 1; k < size; ++k) {
    for (int r = 0; r < kRegisters; ++r) value[r] = Step::apply(value[r], load(k, r));
  }
}

/// The bracket. `load(input, r)` reads register r of an input, given as its place in `run.inputs`.
template <class Vectors, class L, class Step, int kRegisters, class Load>
[[gnu::always_inline]] inline void fold_bracket(const FoldRun& run, typename L::Acc (&total)[kRegisters], Load load) {
  const std::byte* const* input = run.inputs;
  const auto load_member = [&](int k, int r) { return load(input[k], r); };
  fold_group<Vectors, L, Step, kRegisters>(run.groups[0], total, load_member);
  for (int group = 1; group < run.group_count; ++group) {
    input += run.groups[group - 1];
    typename L::Acc partial[kRegisters];
    fold_group<Vectors, L, Step, kRegisters>(run.groups[group], partial, load_member);
    for (int r = 0; r < kRegisters; ++r) total[r] = Step::apply(total[r], partial[r]);
  }
}

/// Divides, multiplies, and makes every NaN the same one. Integers have no finish here.
template <class Vectors, class L>
[[gnu::always_inline]] inline typename L::Acc finish(const FoldRun& run, typename L::Acc value) {
  using Acc = typename L::Acc;
  using Scalar = typename L::Scalar;
  if constexpr (static_cast<Scalar>(0.5) != 0) {
    if (run.divisor != 1.0) value = value / (Acc{} + static_cast<Scalar>(run.divisor));
    if (run.factor != 1.0) value = value * (Acc{} + static_cast<Scalar>(run.factor));
    value = value == value ? value : Acc{} + static_cast<Scalar>(__builtin_nan(""));
  }
  return value;
}

template <class Vectors, class L, class Step, int kRegisters>
[[gnu::always_inline]] inline void fold_registers(const FoldRun& run, int64_t first, bool past_cache) {
  constexpr int64_t kRegisterBytes = sizeof(typename L::Acc) / sizeof(typename L::Scalar) * L::kStride;
  const int64_t offset = first * L::kStride;
  typename L::Acc total[kRegisters];
  fold_bracket<Vectors, L, Step, kRegisters>(
      run, total, [offset](const std::byte* input, int r) { return L::load(input + offset + r * kRegisterBytes); });
  for (int r = 0; r < kRegisters; ++r) total[r] = finish<Vectors, L>(run, total[r]);
  std::byte* out = run.out + offset;
  if (past_cache) {
    for (int r = 0; r < kRegisters; ++r) L::stream(out + r * kRegisterBytes, total[r]);
  } else {
    for (int r = 0; r < kRegisters; ++r) L::store(out + r * kRegisterBytes, total[r]);
  }
  if (run.also == nullptr) return;
  for (int r = 0; r < kRegisters; ++r) L::store(run.also + offset + r * kRegisterBytes, total[r]);
}

/// `n` elements, fewer than a register holds.
template <class Vectors, class L, class Step>
[[gnu::always_inline]] inline void fold_part(const FoldRun& run, int64_t first, int64_t n) {
  const int64_t offset = first * L::kStride;
  typename L::Acc total[1];
  fold_bracket<Vectors, L, Step, 1>(
      run, total, [offset, n](const std::byte* input, int) { return load_part<L>(input + offset, n); });
  total[0] = finish<Vectors, L>(run, total[0]);
  store_part<L>(run.out + offset, total[0], n);
  if (run.also != nullptr) store_part<L>(run.also + offset, total[0], n);
}

template <class Vectors, class Element, template <class, class> class Step>
void fold(const FoldRun& run) {
  constexpr int kLanes = Vectors::kBytes / kAccBytes<Element>;
  using L = Lanes<Vectors, Element, kLanes>;
  using S = Step<Vectors, typename L::Acc>;
  constexpr int kUnroll = 4;
  int64_t first = 0;
  bool past_cache = false;
  if (run.hint == StoreHint::kNonTemporal) {
    const int64_t head = elements_to_alignment<Vectors>(run.out, L::kStride, kLanes * L::kStride);
    past_cache = head >= 0 && head < run.count;
    if (past_cache && head > 0) fold_part<Vectors, L, S>(run, 0, head);
    if (past_cache) first = head;
  }
  for (; first + kUnroll * kLanes <= run.count; first += kUnroll * kLanes) {
    fold_registers<Vectors, L, S, kUnroll>(run, first, past_cache);
  }
  for (; first + kLanes <= run.count; first += kLanes) fold_registers<Vectors, L, S, 1>(run, first, past_cache);
  if (first < run.count) fold_part<Vectors, L, S>(run, first, run.count - first);
  if (past_cache) Vectors::fence();
}

/// Sums and products of integers are taken in the unsigned type, where overflow wraps.
template <class Vectors, class Compared, class Added = Compared>
constexpr void fill_row(KernelSet& set, Dtype dtype) {
  FoldFn* row = set.fold[static_cast<size_t>(dtype)];
  row[static_cast<size_t>(Fold::kSum)] = &fold<Vectors, Added, SumStep>;
  row[static_cast<size_t>(Fold::kMin)] = &fold<Vectors, Compared, MinStep>;
  row[static_cast<size_t>(Fold::kMax)] = &fold<Vectors, Compared, MaxStep>;
  row[static_cast<size_t>(Fold::kProduct)] = &fold<Vectors, Added, ProductStep>;
}

template <class Vectors>
constexpr KernelSet make_kernels(Isa isa) {
  KernelSet set{isa, {}};
  fill_row<Vectors, uint8_t>(set, Dtype::kU8);
  fill_row<Vectors, int8_t, uint8_t>(set, Dtype::kI8);
  fill_row<Vectors, uint16_t>(set, Dtype::kU16);
  fill_row<Vectors, int16_t, uint16_t>(set, Dtype::kI16);
  fill_row<Vectors, uint32_t>(set, Dtype::kU32);
  fill_row<Vectors, int32_t, uint32_t>(set, Dtype::kI32);
  fill_row<Vectors, uint64_t>(set, Dtype::kU64);
  fill_row<Vectors, int64_t, uint64_t>(set, Dtype::kI64);
  fill_row<Vectors, F16>(set, Dtype::kF16);
  fill_row<Vectors, Bf16>(set, Dtype::kBf16);
  fill_row<Vectors, float>(set, Dtype::kF32);
  fill_row<Vectors, double>(set, Dtype::kF64);
  FoldFn* truth = set.fold[static_cast<size_t>(Dtype::kBool)];
  truth[static_cast<size_t>(Fold::kSum)] = truth[static_cast<size_t>(Fold::kMax)] = &fold<Vectors, Bool, MaxStep>;
  truth[static_cast<size_t>(Fold::kProduct)] = truth[static_cast<size_t>(Fold::kMin)] = &fold<Vectors, Bool, MinStep>;
  return set;
}

}  // namespace rueda::core
