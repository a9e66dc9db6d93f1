#pragma once
#include <span>
#include <vector>

#include "ops/algorithm.h"

namespace rueda::core {

/// Exchanges of bytes as steps of a larger batch: each phase is a batch of its own within the stamps of the whole. The
/// plan of the whole must have the stamps of one exchange times the number of phases. Used by the lane thread; borrows
/// the call and the mesh.
class ByteExchange {
 public:
  using Run = Status (*)(const Call& call, Mesh& mesh, Deadline deadline);
  /// `exchange` is an algorithm that exchanges rows; `phases` runs of it share the call's stamps.
  ByteExchange(const Call& call, Mesh& mesh, Deadline deadline, int phases, Run exchange);

  /// This member's position in the order of ranks.
  int position() const { return position_; }
  /// Sends `bytes`, cut into `parts` (as in `Slice`), and fills `arrived` with what the members sent, in the order of
  /// ranks. Blocks until then. Fails as the exchange does: the epoch is over.
  Status run(int phase, OpKind kind, std::span<const std::byte> bytes, std::span<const int64_t> parts,
             std::vector<std::byte>& arrived) const;

 private:
  const Call& call_;
  Mesh& mesh_;
  Deadline deadline_;
  uint64_t stamps_;  ///< of one phase
  Run run_;
  int position_;
};

}  // namespace rueda::core
