#include "compression/codec.h"

#include <cstdlib>

#include "compression/rows.h"

namespace rueda::core {

const Codec& codec(CodecId id) {
  for (const Codec& row : codecs()) {
    if (row.id == id) return row;
  }
  std::abort();
}

std::span<const Codec> codecs() {
  static const Codec rows[] = {kNoneCodec, kFp16Codec, kBf16Codec};
  return rows;
}

}  // namespace rueda::core
