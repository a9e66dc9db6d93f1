#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/chunks.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// The elements of a tensor of `count` that belong to the member at `position` of `size`: whole rows, dealt out as
/// evenly as possible, the first members one row more.
ElementRange rows_of(int64_t count, int64_t row, int size, int position);

/// The division of a batch among the members that reduce it: an owner's part is the run of its elements of all tensors.
/// In a reduce-scatter every member owns its rows, in the order of ranks whatever the team's; in a reduce the root owns
/// all. A value; borrows nothing.
///
///   tensors  | 0 0 1 1 2 | 0 1 2 |     part of owner 0:  0 0 0      of owner 1:  1 1 1      of owner 2:  2 2
class OwnerParts {
 public:
  explicit OwnerParts(const Call& call);

  int size() const { return static_cast<int>(counts_.size()); }
  /// The part as slices, one a tensor: `in` lies in the own tensors; `out` has a meaning for the own part only.
  std::span<const Slice> of(int owner) const {
    return {slices_.data() + static_cast<size_t>(owner) * tensors_, tensors_};
  }
  int64_t count(int owner) const { return counts_[static_cast<size_t>(owner)]; }
  int64_t longest() const;

 private:
  size_t tensors_;
  std::vector<Slice> slices_;
  std::vector<int64_t> counts_;
};

/// How the parts travel in chunks: a chunk has a piece of every member's part, all of one length in whole cache lines
/// if there is room for them.
struct Pieces {
  int64_t length;  ///< elements of a full piece
  int64_t number;  ///< chunks; at least 1
  bool one_owner;  ///< one member owns everything, and its pieces fill whole chunks

  static Pieces of(const Call& call, const OwnerParts& parts, size_t element_bytes);
  /// The offset of an owner's piece in a chunk, in elements.
  int64_t offset_of(int owner) const { return one_owner ? 0 : owner * length; }
  /// Elements of a part of `count` that are in chunk `chunk`.
  int64_t length_of(int64_t count, int64_t chunk) const {
    return std::clamp<int64_t>(count - chunk * length, 0, length);
  }
};

/// Elements of a full piece of a chunk: an even share of it, cut down to whole cache lines, so that two owners never
/// write one line.
int64_t piece_length(uint32_t chunk_bytes, size_t element_bytes, int members);

/// The plan for a shape in chunks of `chunk_bytes`, however unevenly the members share it.
AlgorithmChoice plan_pieces(const BatchShape& shape, uint32_t chunk_bytes);

}  // namespace rueda::core
