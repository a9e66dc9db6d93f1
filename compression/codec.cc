#include "compression/codec.h"

#include <cstdlib>

#include "compression/all_codecs.h"

namespace rueda::core {

const Codec& codec(CodecId id) {
  for (const Codec& known : codecs()) {
    if (known.id == id) return known;
  }
  std::abort();
}

std::span<const Codec> codecs() {
  static const Codec all[] = {kNoneCodec, kFp16Codec, kBf16Codec};
  return all;
}

}  // namespace rueda::core
