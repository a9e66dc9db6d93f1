#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Reduction on one host after which every member has its own part: the first half of `shm_two_shot`, with slices cut
/// by owner instead of evenly.
///
///   step j:  pack chunk j       the peers' pieces ─encode, scale─▶ own input slot | piece 0 | piece 1 | ...
///            fold chunk j-1     N inputs' own pieces ─▶ own rows of the tensors
///
/// The own piece is not copied if its bits travel as they are. Inputs are added in the team's order, so that each
/// member has the bits that an all-reduce would have put there.
///
/// Blocks the lane until this rank has its part. kPeerLost ends the epoch; kTimeout does, too, and some peer may still
/// be running.
Status shm_reducescatter(const Call& call, Mesh& mesh, Deadline deadline);
/// A batch of one chunk, without blocking.
Result<StepResult> shm_reducescatter_step(const Call& call, Mesh& mesh, StepState& state);
bool shm_reducescatter_fits(const BatchShape& shape);
AlgorithmChoice shm_reducescatter_plan(const BatchShape& shape);

}  // namespace rueda::core
