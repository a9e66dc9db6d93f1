// Plans a batch that is cut by owner. It is apart from the cutting itself, which plug-ins use too, because it needs the
// codecs.
#include "ops/owner_parts.h"
#include "ops/packing.h"

namespace rueda::core {

/// One member may own the whole batch, so there are stamps for a part as long as all of it; the plan cannot know the
/// rows.
AlgorithmChoice plan_pieces(const BatchShape& shape, uint32_t chunk_bytes) {
  const size_t element = wire_element_bytes(shape);
  const auto piece =
      static_cast<uint32_t>(piece_length(chunk_bytes, element, shape.kind == OpKind::kReduce ? 1 : shape.ranks)) *
      element;
  AlgorithmChoice choice = plan_chunks(wire_bytes(shape), static_cast<uint32_t>(piece));
  choice.chunk_bytes = chunk_bytes;
  return choice;
}

}  // namespace rueda::core
