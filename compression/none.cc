// Every type travels as it is. Still a pass: it scales, and it stores past the cache if the writer asks for it.
#include "compression/all_codecs.h"
#include "compression/cast.h"

namespace rueda::core {
namespace {

Dtype wire(Dtype from) { return from; }

void encode(Dtype from, double prescale, const std::byte* in, std::byte* out, int64_t count, StoreHint hint) {
  cast(casts(best_isa()), CastTask{from, from, prescale, hint}, in, out, count);
}

void decode(Dtype to, const std::byte* in, std::byte* out, int64_t count, StoreHint hint) {
  cast(casts(best_isa()), CastTask{to, to, 1.0, hint}, in, out, count);
}

}  // namespace

const Codec kNoneCodec{CodecId::kNone, "none", &wire, &encode, &decode, true};

}  // namespace rueda::core
