// One pass over memory: convert, scale, or both.
//
//   same type, factor 1       the bits are copied, NaN payloads and all
//   integers with a factor    multiplied in fp64, cut off toward zero, held at the ends of the range: in blocks
//   floats                    a kernel for each pair of types, built per instruction set (cast_vectors.h)
//   complex                   as twice as many of its parts
#include "compression/cast.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compression/held_integer.h"
#include "runtime/base/float_mode.h"

namespace rueda::core {
namespace {

/// Plain copies are memcpy's, which knows the processor better; only stores past the cache need a pass of ours.
void copy(const CastSet& set, const CastRun& run, size_t element_bytes) {
  const size_t bytes = static_cast<size_t>(run.count) * element_bytes;
  if (run.hint == StoreHint::kPlain) {
    if (run.in != run.out && bytes > 0) std::memcpy(run.out, run.in, bytes);
    return;
  }
  CastRun whole = run;
  whole.count = static_cast<int64_t>(bytes);
  set.stream_bytes(whole);
}

/// Scaled a block at a time in the first-level cache, so that one copy serves both kinds of store.
template <class T>
void scale_integers(const CastSet& set, const CastRun& run) {
  constexpr int64_t kBlock = 4096 / sizeof(T);
  alignas(64) T block[kBlock];
  for (int64_t first = 0; first < run.count; first += kBlock) {
    const int64_t n = std::min(kBlock, run.count - first);
    const size_t offset = static_cast<size_t>(first) * sizeof(T);
    std::memcpy(block, run.in + offset, static_cast<size_t>(n) * sizeof(T));
    for (int64_t i = 0; i < n; ++i) block[i] = held_integer<T>(static_cast<double>(block[i]) * run.factor);
    const auto* scaled = reinterpret_cast<const std::byte*>(block);
    copy(set, CastRun{scaled, run.out + offset, n, 1.0, run.hint}, sizeof(T));
  }
}

void scale(const CastSet& set, Dtype dtype, const CastRun& run) {
  switch (dtype) {
    case Dtype::kU8: return scale_integers<uint8_t>(set, run);
    case Dtype::kI8: return scale_integers<int8_t>(set, run);
    case Dtype::kU16: return scale_integers<uint16_t>(set, run);
    case Dtype::kI16: return scale_integers<int16_t>(set, run);
    case Dtype::kU32: return scale_integers<uint32_t>(set, run);
    case Dtype::kI32: return scale_integers<int32_t>(set, run);
    case Dtype::kU64: return scale_integers<uint64_t>(set, run);
    case Dtype::kI64: return scale_integers<int64_t>(set, run);
    default: return copy(set, run, size_of(dtype));
  }
}

}  // namespace

void cast(const CastSet& set, const CastTask& task, const std::byte* in, std::byte* out, int64_t count) {
  const CastRun run{in, out, count, task.factor, task.hint};
  if (count <= 0) return;
  if (is_complex(task.from) && task.from == task.to) {
    const Dtype part = part_of(task.from);
    return cast(set, CastTask{part, part, task.factor, task.hint}, in, out, 2 * count);
  }
  const FloatMode mode;  // the caller's rounding and denormal modes must not show in the result
  if (task.from == task.to) {
    if (task.factor == 1.0) return copy(set, run, size_of(task.from));
    if (!is_float(task.from)) return scale(set, task.from, run);
  }
  const CastSet::Pass pass = set.pass[static_cast<size_t>(task.from)][static_cast<size_t>(task.to)];
  if (pass == nullptr) std::abort();
  pass(run);
}

}  // namespace rueda::core
