#pragma once
#include "compression/cast.h"
#include "runtime/base/vectors.h"

/// The passes, written once and built per instruction set by the files that include this (see runtime/base/vectors.h).
namespace rueda::core {

/// Element in memory, kElements values of fp64 in the accumulator: a 16-bit float goes through an fp32 rounded to odd,
/// so that it is rounded once (runtime/base/half.h).
template <class Vectors, class Element, int kElements>
struct WideVector {
  static constexpr int kStride = sizeof(Element);
  using Narrow = ElementVector<Vectors, Element, kElements>;
  using Single = Vec<float, 4 * kElements>;
  using Word = Vec<uint32_t, 4 * kElements>;
  using Acc = Vec<double, 8 * kElements>;

  [[gnu::always_inline]] static Acc load(const std::byte* from) {
    return __builtin_convertvector(Narrow::load(from), Acc);
  }
  [[gnu::always_inline]] static Single to_odd(Acc value) {
    using Long = Vec<int64_t, 8 * kElements>;
    constexpr int64_t kMagnitude = 0x7fffffffffffffff;
    const Single nearest = __builtin_convertvector(value, Single);
    const Acc back = __builtin_convertvector(nearest, Acc);
    const Long inexact = (back != value) & (value == value);  // NOLINT(misc-redundant-expression)
    const Long away = (__builtin_bit_cast(Long, back) & kMagnitude) > (__builtin_bit_cast(Long, value) & kMagnitude);
    const Word lost = __builtin_convertvector(inexact, Word);
    const Word up = __builtin_convertvector(inexact & away, Word);
    return __builtin_bit_cast(Single, (__builtin_bit_cast(Word, nearest) + up) | (lost & 1u));
  }
  [[gnu::always_inline]] static void store(std::byte* to, Acc value) { Narrow::store(to, to_odd(value)); }
  [[gnu::always_inline]] static void stream(std::byte* to, Acc value) { Narrow::stream(to, to_odd(value)); }
};

/// The loop of every pass. In and Out are kinds of vectors with one accumulator.
template <class Vectors, class In, class Out, int kElements, class Work>
[[gnu::always_inline]] inline void run_pass(const CastRun& run, Work work) {
  int64_t i = 0;
  bool past_cache = false;
  if (run.hint == StoreHint::kNonTemporal) {
    const int64_t head = elements_to_alignment<Vectors>(run.out, Out::kStride, kElements * Out::kStride);
    past_cache = head >= 0 && head < run.count;
    if (past_cache && head > 0) store_part<Out>(run.out, work(load_part<In>(run.in, head)), head);
    if (past_cache) i = head;
  }
  if (past_cache) {
    for (; i + kElements <= run.count; i += kElements) {
      Out::stream(run.out + i * Out::kStride, work(In::load(run.in + i * In::kStride)));
    }
  }
  for (; i + kElements <= run.count; i += kElements) {
    Out::store(run.out + i * Out::kStride, work(In::load(run.in + i * In::kStride)));
  }
  const int64_t rest = run.count - i;
  if (rest > 0) store_part<Out>(run.out + i * Out::kStride, work(load_part<In>(run.in + i * In::kStride, rest)), rest);
  if (past_cache) Vectors::fence();
}

template <class Vectors, class In, class Out, int kElements, class Scalar>
void cast_floats(const CastRun& run) {
  using Acc = typename In::Acc;
  if (run.factor == 1.0) return run_pass<Vectors, In, Out, kElements>(run, [](Acc value) { return value; });
  const Acc factor = Acc{} + static_cast<Scalar>(run.factor);
  run_pass<Vectors, In, Out, kElements>(run, [factor](Acc value) { return value * factor; });
}

template <class Vectors>
void stream_bytes(const CastRun& run) {
  using Bytes = ElementVector<Vectors, uint8_t, Vectors::kBytes>;
  run_pass<Vectors, Bytes, Bytes, Vectors::kBytes>(run, [](typename Bytes::Acc value) { return value; });
}

template <class Vectors, class From, class To>
constexpr CastSet::Pass kSinglePass =
    &cast_floats<Vectors, ElementVector<Vectors, From, Vectors::kBytes / 4>,
                 ElementVector<Vectors, To, Vectors::kBytes / 4>, Vectors::kBytes / 4, float>;

template <class Vectors>
constexpr CastSet make_casts(Isa isa) {
  constexpr int kDoubles = Vectors::kBytes / 8;
  using F64s = ElementVector<Vectors, double, kDoubles>;
  using F16s = WideVector<Vectors, F16, kDoubles>;
  using Bf16s = WideVector<Vectors, Bf16, kDoubles>;
  constexpr size_t kHalf = static_cast<size_t>(Dtype::kF16), kBrain = static_cast<size_t>(Dtype::kBf16);
  constexpr size_t kSingle = static_cast<size_t>(Dtype::kF32), kDouble = static_cast<size_t>(Dtype::kF64);
  CastSet set{isa, &stream_bytes<Vectors>, {}};
  set.pass[kHalf][kHalf] = kSinglePass<Vectors, F16, F16>;
  set.pass[kBrain][kBrain] = kSinglePass<Vectors, Bf16, Bf16>;
  set.pass[kSingle][kSingle] = kSinglePass<Vectors, float, float>;
  set.pass[kSingle][kHalf] = kSinglePass<Vectors, float, F16>;
  set.pass[kSingle][kBrain] = kSinglePass<Vectors, float, Bf16>;
  set.pass[kHalf][kSingle] = kSinglePass<Vectors, F16, float>;
  set.pass[kBrain][kSingle] = kSinglePass<Vectors, Bf16, float>;
  set.pass[kDouble][kDouble] = &cast_floats<Vectors, F64s, F64s, kDoubles, double>;
  set.pass[kDouble][kHalf] = &cast_floats<Vectors, F64s, F16s, kDoubles, double>;
  set.pass[kDouble][kBrain] = &cast_floats<Vectors, F64s, Bf16s, kDoubles, double>;
  set.pass[kHalf][kDouble] = &cast_floats<Vectors, F16s, F64s, kDoubles, double>;
  set.pass[kBrain][kDouble] = &cast_floats<Vectors, Bf16s, F64s, kDoubles, double>;
  return set;
}

}  // namespace rueda::core
