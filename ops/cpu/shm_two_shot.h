#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce of large batches on one host: a reduce-scatter and an all-gather through shared memory, pipelined over
/// chunks that stay in cache.
///
///   step j:  pack chunk j        tensors ─encode, scale─▶ own input slot (all but the own slice)
///            reduce chunk j-1    N inputs' own slices ─▶ own result slot, and the own tensor
///            unpack chunk j-2    peers' result slots ─decode─▶ tensors
///
/// So each tensor is read once and written once, and no buffer is larger than the slots. The own slice is not copied
/// if its bits travel as they are. Inputs are added in the team's order, no matter which member owns the slice.
///
/// Blocks the lane until this rank has all results; peers may still be reading its slots, which the ledger knows.
/// kPeerLost ends the epoch; kTimeout does, too, and some peer may still be running.
Status shm_two_shot(const Call& call, Mesh& mesh, Deadline deadline);
bool shm_two_shot_fits(const BatchShape& shape);
AlgorithmChoice shm_two_shot_plan(const BatchShape& shape);

}  // namespace rueda::core
