// The table of codecs, in the order of their ids. `codec` searches by id instead of indexing, so that an id which is
// not there ends the process instead of reading past the end.
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
