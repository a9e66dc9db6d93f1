#pragma once
#include <type_traits>
#include <utility>

#include "ops/kernels/fold.h"
#include "runtime/base/vectors.h"

/// The folds, written once and built per instruction set by the files that include this (see runtime/base/vectors.h).
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
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) {
    return ((b < a) | (b != b)) ? b : a;  // NOLINT(misc-redundant-expression): a NaN differs from itself
  }
};
template <class Vectors, class Acc>
struct MaxStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) {
    return ((b > a) | (b != b)) ? b : a;  // NOLINT(misc-redundant-expression): a NaN differs from itself
  }
};

template <class Vectors, class Acc>
struct AndStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return a & b; }
};
template <class Vectors, class Acc>
struct OrStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return a | b; }
};
template <class Vectors, class Acc>
struct XorStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) { return a ^ b; }
};

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, the parts side by side in the register: each product rounded, then their
/// sum. An infinity may become NaN, as in every language's fast complex product.
template <class Vectors, class Acc>
struct ComplexProductStep {
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b) {
    return apply(a, b, std::make_integer_sequence<int, sizeof(Acc) / sizeof(a[0])>());
  }
  template <int... i>
  [[gnu::always_inline]] static Acc apply(Acc a, Acc b, std::integer_sequence<int, i...>) {
    using Scalar = std::remove_reference_t<decltype(a[0])>;
    const Acc real = __builtin_shufflevector(a, a, (i & ~1)...);
    const Acc imaginary = __builtin_shufflevector(a, a, (i | 1)...);
    const Acc crossed = __builtin_shufflevector(b, b, (i ^ 1)...);
    const Acc sign = {((i & 1) == 0 ? Scalar{-1} : Scalar{1})...};
    return real * b + imaginary * crossed * sign;
  }
};

/// The left fold of `size` inputs, kRegisters registers of each. `load(k, r)` reads register r of the k-th of them.
template <class Vectors, class L, class Step, int kRegisters, class Load>
[[gnu::always_inline]] inline void fold_group(int size, typename L::Acc (&value)[kRegisters], Load load) {
  for (int r = 0; r < kRegisters; ++r) value[r] = load(0, r);
  for (int k = 1; k < size; ++k) {
    for (int r = 0; r < kRegisters; ++r) value[r] = Step::apply(value[r], load(k, r));
  }
}

/// The bracket. `load(i, r)` reads register r of input i of `run.inputs`.
template <class Vectors, class L, class Step, int kRegisters, class Load>
[[gnu::always_inline]] inline void fold_bracket(const FoldRun& run, typename L::Acc (&total)[kRegisters], Load load) {
  int first = 0;
  const auto load_member = [&](int k, int r) { return load(first + k, r); };
  fold_group<Vectors, L, Step, kRegisters>(run.groups[0], total, load_member);
  for (int group = 1; group < run.group_count; ++group) {
    first += run.groups[group - 1];
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
    // NOLINTNEXTLINE(misc-redundant-expression): a NaN differs from itself
    value = value == value ? value : Acc{} + static_cast<Scalar>(__builtin_nan(""));
  }
  return value;
}

template <class L>
inline constexpr int64_t kRegisterBytes = int64_t{L::kStride} *
                                          (sizeof(typename L::Acc) / sizeof(typename L::Scalar) / L::kScalars);

/// Reads input i by `load(kind, address)`. The kind of vectors is Own for input `run.own`, and L for the others.
template <class L, class Own, class Load>
[[gnu::always_inline]] inline typename L::Acc load_input(const FoldRun& run, int i, Load load) {
  if constexpr (!std::is_same_v<L, Own>) {
    if (i == run.own) return load(Own{}, run.inputs[i]);
  }
  return load(L{}, run.inputs[i]);
}

template <class Vectors, class L, class Own, class Step, int kRegisters>
[[gnu::always_inline]] inline void fold_registers(const FoldRun& run, int64_t first, bool past_cache) {
  typename L::Acc total[kRegisters];
  fold_bracket<Vectors, L, Step, kRegisters>(run, total, [&run, first](int i, int r) {
    return load_input<L, Own>(run, i, [first, r]<class In>(In, const std::byte* input) {
      return In::load(input + first * In::kStride + r * kRegisterBytes<In>);
    });
  });
  for (int r = 0; r < kRegisters; ++r) total[r] = finish<Vectors, L>(run, total[r]);
  std::byte* out = run.out + first * L::kStride;
  if (past_cache) {
    for (int r = 0; r < kRegisters; ++r) L::stream(out + r * kRegisterBytes<L>, total[r]);
  } else {
    for (int r = 0; r < kRegisters; ++r) L::store(out + r * kRegisterBytes<L>, total[r]);
  }
  if (run.also == nullptr) return;
  std::byte* also = run.also + first * Own::kStride;
  for (int r = 0; r < kRegisters; ++r) Own::store(also + r * kRegisterBytes<Own>, total[r]);
}

/// `n` elements, fewer than a register holds.
template <class Vectors, class L, class Own, class Step>
[[gnu::always_inline]] inline void fold_part(const FoldRun& run, int64_t first, int64_t n) {
  typename L::Acc total[1];
  fold_bracket<Vectors, L, Step, 1>(run, total, [&run, first, n](int i, int) {
    return load_input<L, Own>(run, i, [first, n]<class In>(In, const std::byte* input) {
      return load_part<In>(input + first * In::kStride, n);
    });
  });
  total[0] = finish<Vectors, L>(run, total[0]);
  store_part<L>(run.out + first * L::kStride, total[0], n);
  if (run.also != nullptr) store_part<Own>(run.also + first * Own::kStride, total[0], n);
}

/// `OwnElement` is that of input `own` and of `also`.
template <class Vectors, class Element, template <class, class> class Step, class OwnElement = Element>
void fold(const FoldRun& run) {
  constexpr int kElements = Vectors::kBytes / kAccBytes<Element>;
  using L = ElementVector<Vectors, Element, kElements>;
  using Own = ElementVector<Vectors, OwnElement, kElements>;
  using S = Step<Vectors, typename L::Acc>;
  constexpr int kUnroll = 4;
  int64_t first = 0;
  bool past_cache = false;
  if (run.hint == StoreHint::kNonTemporal) {
    const int64_t head = elements_to_alignment<Vectors>(run.out, L::kStride, kElements * L::kStride);
    past_cache = head >= 0 && head < run.count;
    if (past_cache && head > 0) fold_part<Vectors, L, Own, S>(run, 0, head);
    if (past_cache) first = head;
  }
  constexpr int64_t kTogether = int64_t{kUnroll} * kElements;
  for (; first + kTogether <= run.count; first += kTogether) {
    fold_registers<Vectors, L, Own, S, kUnroll>(run, first, past_cache);
  }
  for (; first + kElements <= run.count; first += kElements) {
    fold_registers<Vectors, L, Own, S, 1>(run, first, past_cache);
  }
  if (first < run.count) fold_part<Vectors, L, Own, S>(run, first, run.count - first);
  if (past_cache) Vectors::fence();
}

/// A fold that sees bits only, of elements of `kBytes` bytes.
template <class Vectors, template <class, class> class Step, int kBytes>
void fold_bits(const FoldRun& run) {
  FoldRun bytes = run;
  bytes.count *= kBytes;
  fold<Vectors, uint8_t, Step>(bytes);
}

/// Sums and products of integers are taken in the unsigned type, in which overflow wraps.
/// OwnCompared and OwnAdded are the element types of input `own` and of `also`.
template <class Vectors, class Compared, class Added = Compared, class OwnCompared = Compared, class OwnAdded = Added>
constexpr void fill_folds(FoldFn (&folds)[kFoldCount]) {
  folds[static_cast<size_t>(Fold::kSum)] = &fold<Vectors, Added, SumStep, OwnAdded>;
  folds[static_cast<size_t>(Fold::kMin)] = &fold<Vectors, Compared, MinStep, OwnCompared>;
  folds[static_cast<size_t>(Fold::kMax)] = &fold<Vectors, Compared, MaxStep, OwnCompared>;
  folds[static_cast<size_t>(Fold::kProduct)] = &fold<Vectors, Added, ProductStep, OwnAdded>;
}

template <class Vectors, class Short>
constexpr void fill_rounded_folds(KernelSet& set, Dtype dtype) {
  using RoundedShort = Rounded<Short>;
  fill_folds<Vectors, RoundedShort>(set.rounded[static_cast<size_t>(dtype)]);
  fill_folds<Vectors, Short, Short, RoundedShort, RoundedShort>(set.own_rounded[static_cast<size_t>(dtype)]);
}

template <class Vectors, class Compared, class Added = Compared>
constexpr void fill_integer_folds(KernelSet& set, Dtype dtype) {
  FoldFn(&folds)[kFoldCount] = set.fold[static_cast<size_t>(dtype)];
  fill_folds<Vectors, Compared, Added>(folds);
  folds[static_cast<size_t>(Fold::kAnd)] = &fold_bits<Vectors, AndStep, sizeof(Added)>;
  folds[static_cast<size_t>(Fold::kOr)] = &fold_bits<Vectors, OrStep, sizeof(Added)>;
  folds[static_cast<size_t>(Fold::kXor)] = &fold_bits<Vectors, XorStep, sizeof(Added)>;
}

template <class Vectors, class Part>
constexpr void fill_complex_folds(KernelSet& set, Dtype dtype) {
  FoldFn* folds = set.fold[static_cast<size_t>(dtype)];
  folds[static_cast<size_t>(Fold::kSum)] = &fold<Vectors, Complex<Part>, SumStep>;
  folds[static_cast<size_t>(Fold::kProduct)] = &fold<Vectors, Complex<Part>, ComplexProductStep>;
}

template <class Vectors>
constexpr void fill_truth_folds(KernelSet& set) {
  FoldFn* folds = set.fold[static_cast<size_t>(Dtype::kBool)];
  for (const Fold any : {Fold::kSum, Fold::kMax, Fold::kOr})
    folds[static_cast<size_t>(any)] = &fold<Vectors, Bool, MaxStep>;
  for (const Fold all : {Fold::kProduct, Fold::kMin, Fold::kAnd}) {
    folds[static_cast<size_t>(all)] = &fold<Vectors, Bool, MinStep>;
  }
  folds[static_cast<size_t>(Fold::kXor)] = &fold<Vectors, Bool, XorStep>;
}

template <class Vectors>
constexpr KernelSet make_kernels(Isa isa) {
  KernelSet set{isa, {}, {}, {}};
  fill_integer_folds<Vectors, uint8_t>(set, Dtype::kU8);
  fill_integer_folds<Vectors, int8_t, uint8_t>(set, Dtype::kI8);
  fill_integer_folds<Vectors, uint16_t>(set, Dtype::kU16);
  fill_integer_folds<Vectors, int16_t, uint16_t>(set, Dtype::kI16);
  fill_integer_folds<Vectors, uint32_t>(set, Dtype::kU32);
  fill_integer_folds<Vectors, int32_t, uint32_t>(set, Dtype::kI32);
  fill_integer_folds<Vectors, uint64_t>(set, Dtype::kU64);
  fill_integer_folds<Vectors, int64_t, uint64_t>(set, Dtype::kI64);
  fill_folds<Vectors, F16>(set.fold[static_cast<size_t>(Dtype::kF16)]);
  fill_folds<Vectors, Bf16>(set.fold[static_cast<size_t>(Dtype::kBf16)]);
  fill_folds<Vectors, float>(set.fold[static_cast<size_t>(Dtype::kF32)]);
  fill_folds<Vectors, double>(set.fold[static_cast<size_t>(Dtype::kF64)]);
  fill_rounded_folds<Vectors, F16>(set, Dtype::kF16);
  fill_rounded_folds<Vectors, Bf16>(set, Dtype::kBf16);
  fill_truth_folds<Vectors>(set);
  fill_complex_folds<Vectors, float>(set, Dtype::kC64);
  fill_complex_folds<Vectors, double>(set, Dtype::kC128);
  return set;
}

}  // namespace rueda::core
