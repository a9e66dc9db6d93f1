#include "compression/half_codec.h"
#include "compression/rows.h"

namespace rueda::core {

const Codec kFp16Codec = HalfCodec<Dtype::kF16>::row(CodecId::kFp16, "fp16");

}  // namespace rueda::core
