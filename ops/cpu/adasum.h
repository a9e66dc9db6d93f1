#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// The adaptive sum of gradients (Maleki et al.: Scaling Distributed Training with Adaptive Summation, MLSys 2021), for
/// each tensor on its own:
///
///   Adasum(a, b) = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
///
/// Equal gradients are averaged, orthogonal ones added. More than two ranks make a tree over the order of ranks: level
/// l combines neighbours 2^l apart, and a vector without a neighbour goes up as it is. So any number of ranks will do:
///
///   0 ─┬─ 01 ─┬─ 0123 ─┬─ 01234
///   1 ─┘      │        │
///   2 ─┬─ 23 ─┘        │
///   3 ─┘               │
///   4 ─────────────────┘
///
/// Every member takes a part of the batch's elements of all ranks, and works through the tree on it; at each level the
/// members exchange their parts' products and add them up in the order of ranks, then they gather the results. All are
/// exchanges of rows, over shared memory or channels. Products are summed in fp64, combinations made in fp32 (f64: in
/// fp64) and rounded once at the end, with the same bits on all ranks, on both kinds of memory, from run to run.
///
/// Of B bytes on N ranks each sends 2 B (N-1)/N, and 24 bytes a tensor and pair at each level. Scratch: 3 B, for 16-bit
/// types 4 B. Codecs do not apply. Blocks the lane. kPeerLost and kTimeout end the epoch.
Status shm_adasum(const Call& call, Mesh& mesh, Deadline deadline);
Status direct_adasum(const Call& call, Mesh& mesh, Deadline deadline);
/// A set of one rank: the tensors, scaled.
Status local_adasum(const Call& call, Mesh& mesh, Deadline deadline);
bool shm_adasum_fits(const BatchShape& shape);
bool direct_adasum_fits(const BatchShape& shape);
AlgorithmChoice shm_adasum_plan(const BatchShape& shape);
AlgorithmChoice direct_adasum_plan(const BatchShape& shape);

}  // namespace rueda::core
