#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-gather, all-to-all, gather and scatter of tensors that lie in shared memory on every rank: each receiver copies
/// its rows from the senders' tensors straight to their destination. One copy, where slots take two.
///
///   rows and where they lie, for each receiver ─▶ slot, posted ─ all posted ─▶ copy own rows ─ all done ─▶
///
/// Blocks the lane. kPeerLost ends the epoch; kTimeout does, too, and some peer may still be reading this rank's
/// tensors.
Status shm_shared_rows(const Call& call, Mesh& mesh, Deadline deadline);
bool shm_shared_rows_fits(const BatchShape& shape);
AlgorithmChoice shm_shared_rows_plan(const BatchShape& shape);

}  // namespace rueda::core
