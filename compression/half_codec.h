#pragma once
#include "compression/cast.h"
#include "compression/codec.h"

namespace rueda::core {

/// A codec that sends every wide float as `kWire`, a 16-bit one.
template <Dtype kWire>
struct HalfCodec {
  static Dtype wire(Dtype from) { return from == Dtype::kF32 || from == Dtype::kF64 ? kWire : from; }

  static void encode(Dtype from, double prescale, const std::byte* in, std::byte* out, int64_t count, StoreHint hint) {
    cast(casts(best_isa()), CastTask{from, wire(from), prescale, hint}, in, out, count);
  }

  static void decode(Dtype to, const std::byte* in, std::byte* out, int64_t count, StoreHint hint) {
    cast(casts(best_isa()), CastTask{wire(to), to, 1.0, hint}, in, out, count);
  }

  static constexpr Codec named(CodecId id, const char* name) { return {id, name, &wire, &encode, &decode, true}; }
};

}  // namespace rueda::core
