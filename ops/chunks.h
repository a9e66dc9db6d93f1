#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// How a batch is cut into chunks of equal length, the last one shorter. A batch without elements has one empty chunk.
struct Chunks {
  int64_t count;   ///< elements of the batch
  int64_t length;  ///< elements of a full chunk

  int64_t number() const { return std::max<int64_t>(1, (count + length - 1) / length); }
  int64_t length_of(int64_t chunk) const { return std::min(length, count - chunk * length); }

  static Chunks of(const Call& call, size_t element_bytes) {
    return {call.count, std::max<int64_t>(1, static_cast<int64_t>(call.choice.chunk_bytes / element_bytes))};
  }
};

/// The plan for `wire_bytes` cut into chunks of `chunk_bytes`: one stamp a chunk and two to spare.
inline AlgorithmChoice plan_chunks(uint64_t wire_bytes, uint32_t chunk_bytes) {
  AlgorithmChoice choice;
  choice.chunk_bytes = chunk_bytes;
  choice.stamps = std::max<uint64_t>(1, (wire_bytes + chunk_bytes - 1) / chunk_bytes) + 2;
  return choice;
}

/// Whether the batch is a single chunk.
inline bool is_one_chunk(const AlgorithmChoice& choice) { return choice.stamps <= 3; }

struct ElementRange {
  int64_t begin;
  int64_t end;
  int64_t length() const { return end - begin; }
};

/// How a chunk is divided among the members that reduce it: slices of whole cache lines, of at least 16 KiB each unless
/// the chunk has but one. A chunk too short for all members has fewer owners, and chunks take turns over the members.
class ChunkCut {
 public:
  static constexpr int64_t kMinSliceBytes = 16 << 10;

  ChunkCut(int64_t chunk, int64_t length, size_t element_bytes, int members)
      : length_(length),
        members_(members),
        owners_(static_cast<int>(
            std::clamp<int64_t>(length * static_cast<int64_t>(element_bytes) / kMinSliceBytes, 1, members))),
        first_(static_cast<int>(chunk * owners_ % members)) {
    const int64_t line = std::max<int64_t>(1, 64 / static_cast<int64_t>(element_bytes));
    slice_ = ((length + owners_ - 1) / owners_ + line - 1) / line * line;
  }

  int owners() const { return owners_; }
  /// The member that owns slice `i`.
  int member(int i) const { return (first_ + i) % members_; }
  ElementRange slice(int i) const { return {std::min(length_, i * slice_), std::min(length_, (i + 1) * slice_)}; }
  /// The slice of a member, empty if it owns none.
  ElementRange slice_of(int member) const {
    const int i = index_of(member);
    return i < owners_ ? slice(i) : ElementRange{0, 0};
  }
  /// The slice index of a member; `owners()` or more if it owns none.
  int index_of(int member) const { return (member - first_ + members_) % members_; }

 private:
  int64_t length_;
  int members_;
  int owners_;
  int first_;
  int64_t slice_;
};

}  // namespace rueda::core
