#include "compression/half_codec.h"
#include "compression/rows.h"

namespace rueda::core {

const Codec kBf16Codec = HalfCodec<Dtype::kBf16>::row(CodecId::kBf16, "bf16");

}  // namespace rueda::core
