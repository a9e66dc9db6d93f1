#pragma once
#include "ops/algorithm.h"
#include "ops/pinned_blocks.h"

namespace rueda::core {

/// Runs algorithms of host memory on tensors of a device: by copies to the host, the algorithm there, and copies back,
/// all of the device's own doing. So every operation of every type works on every device. Owned by the data plane, used
/// by the device lane's thread.
class Staging {
 public:
  /// The shape of one piece of a batch that is staged: of host memory, and no longer than a piece.
  static BatchShape piece_shape(const BatchShape& shape);
  /// Returns how many pieces a batch of `bytes` is cut into: 1 for operations that go in one piece. Pure, because it is
  /// part of the plan.
  static int64_t pieces(OpKind kind, ReduceOp op, uint64_t bytes);

  /// Runs the batch and returns once the last copies to the device are its own work; the mark behind them is in
  /// `call.device->finished`. `call.choice` is the algorithm's plan for a piece, with the stamps of all pieces.
  Status run(const Algorithm& algorithm, const Call& call, Mesh& mesh, Deadline deadline);

 private:
  PinnedBlocks blocks_;
};

}  // namespace rueda::core
