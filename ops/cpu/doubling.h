#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// All-reduce of small batches over channels by recursive doubling (Thakur, Rabenseifner, Gropp: Optimization of
/// Collective Communication Operations in MPICH, 2005, section 4): in each step partners at twice the distance exchange
/// everything they have and add it.
///
///   5 members; 4 = 2^2 positions take part; the lower of the first pairs hands its input over and gets the result back
///
///   member   0 ──▶ 1     2     3     4       position   0     1     2     3
///   step 1         ╰──▶◀─╯     ╰──▶◀─╯                  0+1   0+1   2+3   2+3
///   step 2         ╰─────────▶◀┘ and so on              all   all   all   all
///   member   0 ◀── 1
///
/// Cost for B bytes and N members: log2(N) latencies (two more if N is not a power of two) and B log2(N) bytes out and
/// in per member: the fewest steps, so for messages whose time is latency. A longer batch goes chunk by chunk. Partial
/// sums, so not canonical: in fp32 for 16-bit types and codecs. All members get the same bits: both partners add the
/// same two values with the lower position first, so by induction all positions of a block hold equal bits. Scratch:
/// two chunks in the partial type and one in the wire type.
///
/// Blocks the lane. kPeerLost and kTimeout end the epoch. Returns kUnsupported if the lane has no channels.
Status doubling(const Call& call, Mesh& mesh, Deadline deadline);
bool doubling_fits(const BatchShape& shape);
AlgorithmChoice doubling_plan(const BatchShape& shape);

}  // namespace rueda::core
