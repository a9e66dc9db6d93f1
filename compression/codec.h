#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// How values travel: an entry of a table. A codec changes f32 and f64 only; every other type travels as it is. Codecs
/// know no ranks, hold no state and may be used by any thread. To add one, write its own file, a declaration in
/// `all_codecs.h`, a line in `codec.cc`, a `CodecId` and a line in the build; tests and benchmarks loop over the table.
struct Codec {
  CodecId id;
  const char* name;
  /// The type on the wire for values of type `from`; the reduction runs in it.
  Dtype (*wire)(Dtype from);
  /// out[i] = wire(in[i] * prescale) for `count` values in one pass, by the rules of `cast` (compression/cast.h):
  /// integers are scaled in double and cut off toward zero, bool is not scaled. `out` holds count * size_of(wire(from))
  /// bytes at any address; non-temporal stores want it aligned to its element, and are fenced before the return.
  void (*encode)(Dtype from, double prescale, const std::byte* in, std::byte* out, int64_t count, StoreHint hint);
  /// out[i] = to(in[i]), the way back: `in` holds values of type wire(to).
  void (*decode)(Dtype to, const std::byte* in, std::byte* out, int64_t count, StoreHint hint);
  /// Whether a value changes by nothing but the rounding to its wire type, so that a kernel may round it in a register
  /// instead of encoding and decoding it.
  bool only_rounds;
};

/// The codec of `id`; an id that is not in the table is a bug of the caller and ends the process.
const Codec& codec(CodecId id);

/// All codecs, in the order of their ids.
std::span<const Codec> codecs();

}  // namespace rueda::core
