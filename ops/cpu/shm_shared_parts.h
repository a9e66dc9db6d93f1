#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Reduce-scatter and reduce of tensors that lie in shared memory on every rank: each rank reads its part of every
/// rank's tensors and writes the result into its own output, which may lie anywhere. A broadcast is the same without
/// arithmetic: every rank copies the root's tensors.
///
///   offsets of the own tensors ─▶ slot, posted ─ all posted ─▶ N inputs' own part ─▶ own output ─ all done ─▶
///
/// A step posts, or works, and returns kPending until all ranks have done the same. Blocking forms: kPeerLost ends the
/// epoch; kTimeout does, too, and some peer may still be reading this rank's tensors.
Result<StepResult> shm_shared_parts_step(const Call& call, Mesh& mesh, StepState& state);
Status shm_shared_parts(const Call& call, Mesh& mesh, Deadline deadline);

Result<StepResult> shm_shared_broadcast_step(const Call& call, Mesh& mesh, StepState& state);
Status shm_shared_broadcast(const Call& call, Mesh& mesh, Deadline deadline);

}  // namespace rueda::core
