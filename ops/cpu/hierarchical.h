#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce in two levels: shared memory inside a host, channels between hosts. Each byte of the batch crosses a
/// host's border as seldom as possible (Cho et al.: BlueConnect, 2019, for two levels; between hosts the exchange is
/// the one of `direct`).
///
///   host a: ranks 0 1 | host b: ranks 2 3        a chunk is cut into as many slices as the largest host has ranks
///
///   pack      every rank puts its inputs of the chunk into its shared slot
///   fold      local rank s adds its host's inputs of slice s                      0: a's sum of slice 0   2: b's
///   scatter   the owners of a slice, one a host, exchange parts of their sums     0 ⇄ 2,  1 ⇄ 3
///   finish    each adds its part of all hosts' sums, rounds, and hands it out     0 ⇄ 2,  1 ⇄ 3
///   unpack    every rank takes all slices from its host's shared slots
///
/// On a host with fewer ranks, slice s belongs to local rank s mod their number. For B wire bytes and H hosts each host
/// sends and receives 2 B (H-1)/H, whatever its number of ranks; a flat `direct` sends that for every rank.
///
/// `hierarchical` moves host sums in the accumulator's type, so its bits are the canonical ones (as long as no host has
/// more ranks than a group of the bracket). `hierarchical_narrow` moves those of 16-bit wire types in 16 bits.
///
/// Five chunks are in flight: step s packs chunk s, folds s-1, finishes s-2, publishes s-3 and unpacks s-4. Waits for
/// shared memory move channel bytes meanwhile: a peer on another host may need ours before its host can go on.
///
/// Both block the lane. kPeerLost and kTimeout end the epoch. They return kUnsupported if the lane has no channels.
Status hierarchical(const Call& call, Mesh& mesh, Deadline deadline);
bool hierarchical_fits(const BatchShape& shape);
Status hierarchical_narrow(const Call& call, Mesh& mesh, Deadline deadline);
bool hierarchical_narrow_fits(const BatchShape& shape);
AlgorithmChoice hierarchical_plan(const BatchShape& shape);

}  // namespace rueda::core
