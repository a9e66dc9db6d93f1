#pragma once
#include <span>
#include <vector>

#include "ops/algorithm.h"

namespace rueda::core {

/// Exchanges of bytes as steps of a larger batch: each phase is a batch of its own within the stamps of the whole,
/// whose plan is that of the exchange times the number of phases. Lane thread; borrows the call and the mesh.
class ByteExchange {
 public:
  using Run = Status (*)(const Call& call, Mesh& mesh, Deadline deadline);
  /// `exchange` is an algorithm that exchanges rows; `phases` runs of it share the call's stamps.
  ByteExchange(const Call& call, Mesh& mesh, Deadline deadline, int phases, Run exchange);

  /// This member's place in the order of ranks.
  int place() const { return place_; }
  /// Sends `bytes`, cut into `parts` (as in `Slice`), and receives into `arrived` what comes, in the order of ranks.
  Status run(int phase, OpKind kind, std::span<const std::byte> bytes, std::span<const int64_t> parts,
             std::vector<std::byte>& arrived) const;

 private:
  const Call& call_;
  Mesh& mesh_;
  Deadline deadline_;
  uint64_t stamps_;  ///< of one phase
  Run run_;
  int place_;
};

}  // namespace rueda::core
