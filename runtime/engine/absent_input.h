#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// Stands in for the tensors of a rank that has joined: a block of neutral elements that every slice reads, and a block
/// that every slice writes and no thread reads. So a rank that contributes nothing holds no tensor, however long it is.
/// Owned by its batch. Made by the baton's holder, then used by the thread that runs the batch.
class AbsentInput {
 public:
  /// `members`: how many ranks the team has.
  AbsentInput(const Metadata& metadata, int members);
  /// Appends slices of `count` elements in all, in rows of `row` elements, each slice no longer than a block. If rows
  /// are dealt out, the shares that each member gets of the slices add up to its share of the whole tensor.
  void append(int64_t count, int64_t row, std::vector<Slice>& slices) const;

 private:
  static constexpr size_t kBlockBytes = 64 << 10;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  int64_t dealt_to_;     ///< members that rows are dealt out to; 1 if they are not dealt out
  int64_t block_count_;  ///< elements of a block, at least one for each of these members
  std::vector<Line> neutral_;
  mutable std::vector<Line> sink_;
};

}  // namespace rueda::core
