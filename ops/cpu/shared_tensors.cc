// What ranks tell each other about tensors that lie in shared memory: one pair of offsets for each tensor. Lengths do
// not travel, because agreement has compared the shapes. Offsets of another rank are checked against the length of its
// arena as this rank has mapped it: a rank that lies can harm its own tensors only.
#include "ops/cpu/shared_tensors.h"

#include <cstring>
#include <string>

namespace rueda::core {
namespace {

bool lies_within(uint64_t offset, uint64_t bytes, uint64_t arena_bytes) {
  return offset <= arena_bytes && bytes <= arena_bytes - offset;
}

}  // namespace

Status not_in_arena(size_t tensor) {
  return {Code::kInvalidArgument, "tensor " + std::to_string(tensor) +
                                      " of the batch is no longer in shared memory: do not free memory before its "
                                      "operation is done"};
}

/// A tensor without elements has no address that matters. If only inputs are used, the output's offset is the input's.
Status post_offsets(std::span<const Slice> slices, size_t element_bytes, const TensorArena& arena, Posts posts,
                    std::byte* to) {
  for (size_t i = 0; i < slices.size(); ++i) {
    const std::byte* const in = slices[i].in;
    const std::byte* const out = posts == Posts::kInputs ? in : slices[i].out;
    const size_t bytes = static_cast<size_t>(slices[i].count) * element_bytes;
    SharedOffsets offsets;
    if (bytes != 0) {
      if (!arena.contains(in, bytes) || !arena.contains(out, bytes)) {
        return not_in_arena(i);
      }
      offsets = {static_cast<uint64_t>(in - arena.base()), static_cast<uint64_t>(out - arena.base())};
    }
    std::memcpy(to + i * sizeof offsets, &offsets, sizeof offsets);
  }
  return {};
}

Result<std::vector<SharedOffsets>> read_offsets(std::span<const std::byte> from, std::span<const Slice> slices,
                                                size_t element_bytes, uint64_t arena_bytes, int rank) {
  std::vector<SharedOffsets> offsets(slices.size());
  if (from.size() < posted_bytes(offsets.size())) {
    return Status(Code::kPeerLost, "rank " + std::to_string(rank) + " has posted too few addresses", rank);
  }
  if (!offsets.empty()) std::memcpy(offsets.data(), from.data(), posted_bytes(offsets.size()));
  for (size_t i = 0; i < offsets.size(); ++i) {
    const uint64_t bytes = static_cast<uint64_t>(slices[i].count) * element_bytes;
    if (bytes == 0) continue;
    if (lies_within(offsets[i].in, bytes, arena_bytes) && lies_within(offsets[i].out, bytes, arena_bytes)) continue;
    return Status(Code::kPeerLost,
                  "rank " + std::to_string(rank) + " posted tensor " + std::to_string(i) + " of " +
                      std::to_string(bytes) + " bytes at " + std::to_string(offsets[i].in) + " and " +
                      std::to_string(offsets[i].out) + " of its " + std::to_string(arena_bytes) + " bytes",
                  rank);
  }
  return offsets;
}

}  // namespace rueda::core
