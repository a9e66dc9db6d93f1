#pragma once
#include "ops/algorithm.h"

namespace rueda::core {

/// A set of one rank: nothing moves, but scales, codec and rounding are those of any other size.
/// Never fail, never block.
Status local_allreduce(const Call& call, Mesh& mesh, Deadline deadline);
Status local_broadcast(const Call& call, Mesh& mesh, Deadline deadline);
Status local_exchange(const Call& call, Mesh& mesh, Deadline deadline);
Status local_barrier(const Call& call, Mesh& mesh, Deadline deadline);
bool local_fits(const BatchShape& shape);
AlgorithmChoice local_plan(const BatchShape& shape);

}  // namespace rueda::core
