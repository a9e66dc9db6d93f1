#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Broadcast on one host through the root's input slots, chunk by chunk; the bits of every type pass unchanged.
///
///   root:    tensors ─pack─▶ slot k mod slots ─posted─▶ others      others: slot ─▶ tensors ─done─▶ root
///
/// The root is finished when it has posted its last chunk: it waits only for slots that others still read.
/// Blocks the lane. kPeerLost ends the epoch; kTimeout does, too, and some peer may still be running.
Status shm_broadcast(const Call& call, Mesh& mesh, Deadline deadline);
/// A batch of one chunk, without blocking.
Result<StepResult> shm_broadcast_step(const Call& call, Mesh& mesh, StepState& state);
bool shm_broadcast_fits(const BatchShape& shape);
AlgorithmChoice shm_broadcast_plan(const BatchShape& shape);

}  // namespace rueda::core
