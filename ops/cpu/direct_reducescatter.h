#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Reduction over channels after which every member has its own part: the first half of `direct`. Every member sends
/// each peer the pieces of the peer's part and folds the pieces of its own, chunk by chunk, two chunks in flight.
///
/// Canonical, rounds once. Cost for B wire bytes and N members: 1 latency, B (N-1)/N bytes out and in per member, which
/// is the minimum, over N-1 sockets. Scratch: four chunks.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status direct_reducescatter(const Call& call, Mesh& mesh, Deadline deadline);
bool direct_reducescatter_fits(const BatchShape& shape);
AlgorithmChoice direct_reducescatter_plan(const BatchShape& shape);

}  // namespace rueda::core
