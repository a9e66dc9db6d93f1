#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-gather in two levels: each rank's rows cross to every other host once, and reach the ranks there through shared
/// memory.
///
///   host a: ranks 0 1 | host b: ranks 2 3 4       local rank i carries the rows of those whose number on their host is
///                                                 i, modulo its own host's ranks: 0 those of 2 and 4, 3 those of 1
///   send      counts and rows to the carrier on each other host                    2, 4 ─▶ 0    1 ─▶ 3
///   counts    every rank shows its host its own and those it carries; with all of them known, the places are asked for
///   post      own rows, then carried ones as they come, chunk by chunk through the shared input slots
///   collect   chunk j-1 of every local rank goes straight to where it belongs
///
/// For B bytes of a rank and H hosts a rank sends B (H-1), where `direct_exchange` sends them to each rank of the
/// others. Carried rows are received where this rank wants them itself, and copied on from there.
///
/// Blocks the lane. kPeerLost, kTimeout: the epoch is over. kUnsupported: the lane has no channels.
Status hierarchical_allgather(const Call& call, Mesh& mesh, Deadline deadline);
bool hierarchical_allgather_fits(const BatchShape& shape);

}  // namespace rueda::core
