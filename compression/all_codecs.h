#pragma once
#include "compression/codec.h"

namespace rueda::core {

/// The entries of `codecs()`, each defined in the file of its name.
extern const Codec kNoneCodec;
extern const Codec kFp16Codec;
extern const Codec kBf16Codec;

}  // namespace rueda::core
