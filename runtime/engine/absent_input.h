#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// What stands in for the tensors of a rank that has joined: a block of identities that every slice reads, and a block
/// that every slice writes and nobody reads. So a rank that contributes nothing holds no tensor, however long it is.
/// Lives as long as its batch.
class AbsentInput {
 public:
  /// `members`: of the team.
  AbsentInput(const Metadata& metadata, int members);
  /// Slices of `count` elements in all, in rows of `row`, each no longer than a block. Where rows are dealt out, every
  /// member's share of them is that of the whole tensor.
  void append(int64_t count, int64_t row, std::vector<Slice>& slices) const;

 private:
  static constexpr size_t kBlockBytes = 64 << 10;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  int64_t dealt_to_;     ///< members between whom rows are dealt out; 1: they are not
  int64_t block_count_;  ///< elements of a block, at least one for each of those
  std::vector<Line> identity_;
  mutable std::vector<Line> sink_;
};

}  // namespace rueda::core
