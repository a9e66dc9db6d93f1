#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-gather in two levels: each rank's rows cross to every other host once, and reach the ranks there through shared
/// memory.
///
///   host a: ranks 0 1 | host b: ranks 2 3 4       local rank i carries the rows of members that have number i on
///                                                 their own host: 0 those of 2 and 4, 3 those of 1
///   send      counts and rows to the carrier on each other host                    2, 4 ─▶ 0    1 ─▶ 3
///   counts    every rank shows its host its own counts and those it carries; once all are known, it asks for memory
///   post      own rows, then carried ones as they come, chunk by chunk through the shared input slots
///   collect   chunk j-1 of every local rank goes straight to its destination
///
/// For B bytes of a rank and H hosts a rank sends B (H-1), while `direct_exchange` sends B to each rank of the other
/// hosts. Carried rows are received in this rank's own result, and copied on from there.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status hierarchical_allgather(const Call& call, Mesh& mesh, Deadline deadline);
bool hierarchical_allgather_fits(const BatchShape& shape);

}  // namespace rueda::core
