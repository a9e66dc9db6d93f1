#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-gather, all-to-all, gather and scatter on one host: every sender's stream passes through its input slots, chunk
/// by chunk, and every receiver copies its elements straight to their destination.
///
///   stream of a sender   | counts | elements for 0 | elements for 1 | ...      once, if all get the same
///   step j               post chunk j ─posted─▶      chunk j-1 of every sender ─▶ tensors ─done─▶ senders
///
/// The counts are complete when the chunks that hold them are, so receivers ask for memory without a further step. Only
/// receivers hold a slot. Each element is copied twice, each rank's own once; no buffer is larger than the slots.
///
/// A stream may have any length, which rank 0 does not know: the plan takes stamps for the longest there can be.
/// Blocks the lane. kPeerLost ends the epoch; kTimeout does, too, and some peer may still be running.
Status shm_exchange(const Call& call, Mesh& mesh, Deadline deadline);
bool shm_exchange_fits(const BatchShape& shape);
AlgorithmChoice shm_exchange_plan(const BatchShape& shape);

}  // namespace rueda::core
