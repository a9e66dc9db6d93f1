// Sums of integers that must not wrap before they are divided or scaled, block by block through the cache.
//
//   inputs  a b c ... ─widen, add─▶ sums of 512 elements, 64 or 128 bits each ─divide, scale, cut off─▶ results ─▶ out
//
// The blocks are copied to locals first: inputs may lie at any address, and a loop over an aligned local is one that
// the compiler turns into vectors. Results are stored by the `cast` pass for bytes, which has the stores past the
// cache.
#include "ops/kernels/exact_integers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "compression/held_integer.h"

namespace rueda::core {
namespace {

/// Sums of a block: 8 KiB in 128 bits, so block, sums and results stay in the first-level cache.
constexpr int64_t kBlock = 512;

__extension__ typedef __int128 Wide;

/// 64 bits hold the sum of 2^31 inputs of 32 bits; inputs of 64 bits need more.
template <class T>
using Exact = std::conditional_t<sizeof(T) == 8, Wide, int64_t>;

template <class T>
void add_block(const std::byte* from, int64_t n, Exact<T>* sums) {
  T block[kBlock];
  std::memcpy(block, from, static_cast<size_t>(n) * sizeof(T));
  for (int64_t i = 0; i < n; ++i) sums[i] += block[i];
}

/// Truncating division. Up to 32 bits the sum is below 2^53: then the fp64 quotient never rounds up to an integer it
/// has not reached, so cutting it off is exact, at a fifth of the time of an integer division.
template <class T>
Exact<T> divided(Exact<T> sum, Exact<T> divisor) {
  if constexpr (sizeof(T) == 8) return sum / divisor;
  return static_cast<Exact<T>>(static_cast<double>(sum) / static_cast<double>(divisor));
}

/// Without a scale the exact value wraps to the type; with one it is held at the ends of the range.
template <class T>
void finish_block(const ReduceTask& task, int64_t n, const Exact<T>* sums, T* results) {
  const bool average = task.op == ReduceOp::kAverage;
  const auto divisor = static_cast<Exact<T>>(task.divisor);
  for (int64_t i = 0; i < n; ++i) {
    const Exact<T> value = average ? divided<T>(sums[i], divisor) : sums[i];
    results[i] =
        task.postscale == 1.0 ? static_cast<T>(value) : held_integer<T>(static_cast<double>(value) * task.postscale);
  }
}

/// One pass over the inputs; the order of the sum does not matter, because it is exact.
template <class T>
void reduce_blocks(const CastSet& casts, const ReduceTask& task, const FoldRun& run, int input_count) {
  constexpr Dtype kBytes = Dtype::kU8;
  for (int64_t first = 0; first < run.count; first += kBlock) {
    const int64_t n = std::min(kBlock, run.count - first);
    const int64_t offset = first * static_cast<int64_t>(sizeof(T));
    Exact<T> sums[kBlock] = {};
    for (int k = 0; k < input_count; ++k) add_block<T>(run.inputs[k] + offset, n, sums);
    alignas(64) T results[kBlock];
    finish_block<T>(task, n, sums, results);
    const auto* done = reinterpret_cast<const std::byte*>(results);
    const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    cast(casts, CastTask{kBytes, kBytes, 1.0, run.hint}, done, run.out + offset, bytes);
    if (run.also != nullptr) std::memcpy(run.also + offset, results, static_cast<size_t>(bytes));
  }
}

}  // namespace

void reduce_exactly(const CastSet& casts, const ReduceTask& task, const FoldRun& run, int input_count) {
  switch (task.dtype) {
    case Dtype::kU8: return reduce_blocks<uint8_t>(casts, task, run, input_count);
    case Dtype::kI8: return reduce_blocks<int8_t>(casts, task, run, input_count);
    case Dtype::kU16: return reduce_blocks<uint16_t>(casts, task, run, input_count);
    case Dtype::kI16: return reduce_blocks<int16_t>(casts, task, run, input_count);
    case Dtype::kU32: return reduce_blocks<uint32_t>(casts, task, run, input_count);
    case Dtype::kI32: return reduce_blocks<int32_t>(casts, task, run, input_count);
    case Dtype::kU64: return reduce_blocks<uint64_t>(casts, task, run, input_count);
    case Dtype::kI64: return reduce_blocks<int64_t>(casts, task, run, input_count);
    default: std::abort();
  }
}

}  // namespace rueda::core
