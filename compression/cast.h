#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/isa.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// One pass over memory: out[i] = to(in[i] * factor).
struct CastTask {
  Dtype from = Dtype::kF32;
  Dtype to = Dtype::kF32;  ///< `from` itself, or a float from a float: f32 and f64 to and from f16 and bf16
  double factor = 1.0;
  StoreHint hint = StoreHint::kPlain;
};

/// What a pass works on. `in` and `out` may lie at any address; they may be the same memory if the sizes of the two
/// types are equal, and must not overlap otherwise.
struct CastRun {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;
  double factor = 1.0;
  StoreHint hint = StoreHint::kPlain;
};

/// The passes, built for one instruction set. Sets agree to the bit, NaN included. Immutable; any thread.
struct CastSet {
  using Pass = void (*)(const CastRun& run);
  Isa isa;
  /// Copies `run.count` bytes past the cache.
  Pass stream_bytes;
  /// By from and to; null if `cast` is not defined.
  Pass pass[kDtypeCount][kDtypeCount];
};

/// One set per file that builds one; `casts` knows which of them a build has.
extern const CastSet kGenericCasts;
extern const CastSet kAvx2Casts;
extern const CastSet kAvx512Casts;

/// The passes for `isa`; for one that this processor cannot run, those of the best it can.
const CastSet& casts(Isa isa);

/// Runs `task` over `count` elements in one pass, with the store fence after non-temporal stores.
///
/// A factor of 1 between equal types copies the bits. Otherwise the product is computed in fp32 for f32, f16 and bf16
/// and in fp64 for f64, and rounded once to a 16-bit type. Integers are multiplied in fp64, cut off toward zero, held
/// at the ends of the type's range; NaN (0 times infinity) becomes 0. Both parts of a complex number are multiplied.
/// Bool is copied whatever the factor. The calling thread's rounding and denormal modes do not show in the result. A
/// pair of types that is not defined is a bug of the caller and ends the process.
void cast(const CastSet& set, const CastTask& task, const std::byte* in, std::byte* out, int64_t count);

}  // namespace rueda::core
