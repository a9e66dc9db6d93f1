#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce of tensors that lie in shared memory on every rank: each rank reads its slice of every rank's tensors and
/// writes the result into its slice of every rank's tensors. Nothing is copied, and every byte is read once and written
/// once: the least that memory can be asked for.
///
///   offsets of the own tensors ─▶ slot, posted ─ all posted ─▶ own slice: N inputs ─▶ N outputs ─ all done ─▶
///
/// The step posts, or reduces, and returns kPending until all ranks have done the same.
Result<StepResult> shm_shared_step(const Call& call, Mesh& mesh, StepState& state);
/// Blocks the lane until all ranks have written their slices. After a failure, peers may still write into the tensors
/// until these are revoked (`TensorArena::revoke`). kPeerLost ends the epoch; kTimeout does, too.
Status shm_shared(const Call& call, Mesh& mesh, Deadline deadline);
/// Returns true on one host if all ranks' tensors are in shared memory, and not more than a slot has addresses for.
bool shm_shared_fits(const BatchShape& shape);
AlgorithmChoice shm_shared_plan(const BatchShape& shape);

}  // namespace rueda::core
