#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce over channels in which every input goes straight to the member that reduces it: an all-to-all
/// reduce-scatter, then an all-to-all all-gather (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication
/// Operations in MPICH, 2005, section 4; the "direct" exchange is its pairwise form with all steps at once).
///
///   member m, chunk k:   | slice 0 | slice 1 | slice 2 |        inputs of slice m from all    results of all slices
///                          ─▶ 0      ─▶ 1      ─▶ 2     reduce  0 ─▶┐                         0 ─▶┐
///                          packed, encoded: one pass            1 ─▶┼▶ N-input kernel ─▶ all  1 ─▶┼▶ decode, unpack
///                                                               2 ─▶┘                         2 ─▶┘
///
/// Canonical: a slice's owner holds all inputs, adds them in the team's bracket in the exact accumulator and rounds
/// once. The codec applies in both phases. Cost for B wire bytes and N members: 2 latencies, 2 B (N-1)/N bytes out and
/// in per member, which is the minimum, over N-1 sockets.
///
/// Chunks are pipelined: in step s chunk s is scattered, chunk s-1 reduced and gathered, chunk s-2 unpacked. So the
/// order of bytes on every channel is  scatter 0, scatter 1, gather 0, scatter 2, gather 1, ...
/// Scratch: six chunks (packed, inputs, results; two of each), whatever the batch.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status direct(const Call& call, Mesh& mesh, Deadline deadline);
bool direct_fits(const BatchShape& shape);
AlgorithmChoice direct_plan(const BatchShape& shape);

}  // namespace rueda::core
