// f32 and f64 travel as IEEE half: half or a quarter of the bytes, 11 bits of precision, and infinity from 65520 on.
#include "compression/all_codecs.h"
#include "compression/half_codec.h"

namespace rueda::core {

const Codec kFp16Codec = HalfCodec<Dtype::kF16>::named(CodecId::kFp16, "fp16");

}  // namespace rueda::core
