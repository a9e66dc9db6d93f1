#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Barrier on one host: a one-shot without payload. Every rank raises its word and waits for all the others'. It uses
/// no slot, so nothing has to be acknowledged.
Result<StepResult> shm_barrier_step(const Call& call, Mesh& mesh, StepState& state);
/// Blocks the lane until all ranks have come. kPeerLost and kTimeout end the epoch.
Status shm_barrier(const Call& call, Mesh& mesh, Deadline deadline);
bool shm_barrier_fits(const BatchShape& shape);
AlgorithmChoice shm_barrier_plan(const BatchShape& shape);

}  // namespace rueda::core
