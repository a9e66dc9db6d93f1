#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// Where one tensor lies in its rank's arena, as the rank posts it: bytes from the arena's base.
struct SharedOffsets {
  uint64_t in = 0;
  uint64_t out = 0;
};

/// Bytes that a rank posts for a batch of `tensors`.
constexpr size_t posted_bytes(uint64_t tensors) { return tensors * sizeof(SharedOffsets); }

/// What of a tensor other ranks use. Where they only read inputs, outputs may lie in private memory.
enum class Posts { kInputs, kInputsAndOutputs };

/// The kInvalidArgument of a tensor that has left the arena while it was lent. `tensor`: its index in the batch.
Status not_in_arena(size_t tensor);

/// Writes the offsets of a batch's tensors to `to`, which has room for `posted_bytes`. Returns `not_in_arena` if a
/// tensor is not there.
Status post_offsets(std::span<const Slice> slices, size_t element_bytes, const TensorArena& arena, Posts posts,
                    std::byte* to);

/// Reads what another rank has posted for tensors of the same lengths. The rank may write to `from` at any time, so it
/// is copied before it is checked. Returns kPeerLost with `rank` if a tensor would reach beyond the arena.
Result<std::vector<SharedOffsets>> read_offsets(std::span<const std::byte> from, std::span<const Slice> slices,
                                                size_t element_bytes, uint64_t arena_bytes, int rank);

}  // namespace rueda::core
