// Cuts a batch by owner. A reduce-scatter deals rows of dimension 0 out in the order of ranks, whatever order the team
// has:
//
//   tensor of 7 rows, 3 ranks      rank 0: rows 0 1 2      rank 1: rows 3 4      rank 2: rows 5 6
//
// A chunk has one piece for each owner, all of one length, so every member finds the piece of any owner by a
// multiplication. Parts that are longer than others go on alone in the last chunks.
#include "ops/owner_parts.h"

#include <algorithm>

namespace rueda::core {

int64_t piece_length(uint32_t chunk_bytes, size_t element_bytes, int members) {
  const int64_t line = std::max<int64_t>(1, 64 / static_cast<int64_t>(element_bytes));
  const int64_t share = std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes / element_bytes) / members);
  return share > line ? share / line * line : share;
}

ElementRange rows_of(int64_t count, int64_t row, int size, int position) {
  const int64_t rows = count / row;
  const int64_t each = rows / size;
  const int64_t longer = rows % size;
  const auto begin_of = [&](int64_t at) { return (at * each + std::min(at, longer)) * row; };
  return {begin_of(position), begin_of(position + 1)};
}

OwnerParts::OwnerParts(const Call& call)
    : tensors_(call.slices.size()), counts_(static_cast<size_t>(call.team->size())) {
  const Team& team = *call.team;
  const auto element = static_cast<int64_t>(size_of(call.dtype));
  slices_.reserve(tensors_ * counts_.size());
  for (size_t owner = 0; owner < counts_.size(); ++owner) {
    const int rank = team.ranks[owner];
    const auto position = static_cast<int>(
        std::count_if(team.ranks.begin(), team.ranks.end(), [rank](int other) { return other < rank; }));
    for (const Slice& slice : call.slices) {
      ElementRange range = rows_of(slice.count, slice.row, team.size(), position);
      if (call.kind == OpKind::kReduce) range = {0, static_cast<int>(owner) == call.root ? slice.count : 0};
      slices_.push_back({slice.in + range.begin * element, slice.out, range.length()});
      counts_[owner] += range.length();
    }
  }
}

int64_t OwnerParts::longest() const { return *std::max_element(counts_.begin(), counts_.end()); }

Pieces Pieces::of(const Call& call, const OwnerParts& parts, size_t element_bytes) {
  const bool one_owner = call.kind == OpKind::kReduce;
  const int64_t length = piece_length(call.choice.chunk_bytes, element_bytes, one_owner ? 1 : parts.size());
  return {length, std::max<int64_t>(1, (parts.longest() + length - 1) / length), one_owner};
}

}  // namespace rueda::core
