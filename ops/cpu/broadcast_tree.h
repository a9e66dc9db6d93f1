#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// Broadcast over channels down a binomial tree, chunk by chunk (Thakur, Rabenseifner, Gropp: Optimization of
/// Collective Communication Operations in MPICH, 2005, section 3).
///
///   distance from the root, 8 members:          0
///                                          ╭────┼────╮        the parent of d is d without its lowest set bit, so a
///                                          4    2    1        member sends to d+1, d+2, d+4, ... below that bit;
///                                        ╭─┤    │             the farthest subtree first
///                                        6 5    3
///                                        │
///                                        7
///
/// Cost for B bytes in chunks of C and N members: about (log2(N) + B/C) steps of log2(N) sends of C at the root, so
/// small batches take log2(N) latencies, and in long ones a member forwards one chunk while the next one comes. The
/// bits of every type pass unchanged; no codec. Scratch: four chunks.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status broadcast_tree(const Call& call, Mesh& mesh, Deadline deadline);
bool broadcast_tree_fits(const BatchShape& shape);
AlgorithmChoice broadcast_tree_plan(const BatchShape& shape);

}  // namespace rueda::core
