// f32 and f64 travel as bf16: half or a quarter of the bytes, 8 bits of precision, the range of fp32.
#include "compression/all_codecs.h"
#include "compression/half_codec.h"

namespace rueda::core {

const Codec kBf16Codec = HalfCodec<Dtype::kBf16>::named(CodecId::kBf16, "bf16");

}  // namespace rueda::core
