#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-gather, all-to-all, gather and scatter over channels: every sender hands every receiver, straight from its
/// tensors, what is meant for it, and receivers take it straight into theirs.
///
///   on the channel from a sender to a receiver:   | counts | elements |
///
/// 1 latency and no more bytes than have to move (but for 8 a tensor and pair), over at most N-1 sockets. Receivers
/// wait for all counts before they ask for memory. Only a rank's own elements are copied, and there is no scratch but
/// the counts.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status direct_exchange(const Call& call, Mesh& mesh, Deadline deadline);
bool direct_exchange_fits(const BatchShape& shape);
AlgorithmChoice direct_exchange_plan(const BatchShape& shape);

}  // namespace rueda::core
