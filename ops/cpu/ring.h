#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce over channels round a ring: a reduce-scatter of N-1 steps, then an all-gather of N-1 steps (Patarasuk and
/// Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009).
///
///   a chunk has N parts; in step t member m sends part m-t to m+1 and adds what it receives, part m-t-1, to its own:
///
///          part 0    part 1    part 2                after N-1 steps member m holds the whole sum of part m+1,
///   m = 0  a0 ─┐     a1        a2 ◀┐ +a2 of 2        finishes it (average, scale, rounding, codec), and the finished
///   m = 1  b0 ◀┘+a0  b1 ─┐     b2  │                 parts go round once more
///   m = 2  c0        c1 ◀┘+b1  c2 ─┘
///
/// Cost for B bytes and N members: 2 (N-1) latencies and 2 B (N-1)/N bytes out and in per member, the minimum, with two
/// sockets each; every link of the ring carries the same. Two chunks are in flight, one moving while the other is
/// added. Partial sums, so not canonical: in fp32 for 16-bit types and codecs, which doubles the first half's bytes;
/// the second half carries the codec. All members get the same bits, because each part is finished by one of them.
/// Scratch: four chunks and two parts of each, whatever the batch.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status ring(const Call& call, Mesh& mesh, Deadline deadline);
bool ring_fits(const BatchShape& shape);
AlgorithmChoice ring_plan(const BatchShape& shape);

}  // namespace rueda::core
