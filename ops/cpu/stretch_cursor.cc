// Copies between stretches of memory and a slot. The copy into a slot can go past the cache, by the `none` codec, which
// has the non-temporal stores and their fence; writes into the caller's memory stay in the cache, for the caller will
// read it.
#include "ops/cpu/stretch_cursor.h"

#include <cstring>

#include "compression/codec.h"
#include "ops/packing.h"

namespace rueda::core {

void StretchCursor::read(size_t bytes, std::byte* to, StoreHint hint) {
  take(bytes, [&](const std::byte* from, size_t length) {
    codec(CodecId::kNone).encode(Dtype::kU8, 1.0, from, to, static_cast<int64_t>(length), hint_for(length, hint));
    to += length;
  });
}

void StretchCursor::write(size_t bytes, const std::byte* from) {
  take(bytes, [&](std::byte* to, size_t length) {
    if (to != nullptr) std::memcpy(to, from, length);
    from += length;
  });
}

}  // namespace rueda::core
