#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce of small batches on one host with one synchronisation: every rank posts its encoded input once, and
/// every rank folds all inputs, in the team's order, into its own tensors.
///
///   rank r:  input ─encode─▶ slot r (or, up to 56 bytes, the line of the flag itself) ─stamp─▶ all
///            all slots ─fold─▶ tensors ─▶ done
///
/// The step posts as soon as no peer reads the area any more, then returns kPending until all inputs are there.
Result<StepResult> shm_one_shot_step(const Call& call, Mesh& mesh, StepState& state);
/// Shows the own input of up to 48 bytes in the own early line, unless a peer still reads what that held before. What
/// it shows counts for the batch of this stamp and key alone.
void shm_one_shot_show_early(const Call& call, Mesh& mesh);
/// Runs the step to its end. Blocks the lane until all ranks have posted. kPeerLost ends the epoch; kTimeout does, too,
/// and some peer may still be running.
Status shm_one_shot(const Call& call, Mesh& mesh, Deadline deadline);
/// Returns true on one host for no more bytes than an input slot holds.
bool shm_one_shot_fits(const BatchShape& shape);
AlgorithmChoice shm_one_shot_plan(const BatchShape& shape);

}  // namespace rueda::core
