#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Barrier over channels by dissemination (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988):
/// in round k every member tells the member 2^k positions further that it and all it has heard of have come.
///
///   round 0:  m ─▶ m+1      round 1:  m ─▶ m+2      round 2:  m ─▶ m+4      ... until 2^k reaches all
///
/// Cost: ceil(log2(N)) latencies for any N, one byte each.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status channel_barrier(const Call& call, Mesh& mesh, Deadline deadline);
bool channel_barrier_fits(const BatchShape& shape);
AlgorithmChoice channel_barrier_plan(const BatchShape& shape);

}  // namespace rueda::core
