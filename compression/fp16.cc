#include "compression/all_codecs.h"
#include "compression/half_codec.h"

namespace rueda::core {

const Codec kFp16Codec = HalfCodec<Dtype::kF16>::named(CodecId::kFp16, "fp16");

}  // namespace rueda::core
