#pragma once
#include "ops/algorithm.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// What all algorithms over shared memory ask of a batch: one host, more than one rank, host memory.
inline bool shm_fits(const BatchShape& shape) { return shape.one_host && shape.ranks > 1 && shape.device < 0; }

/// How a writer stores what its peers will read: as the plan says. If it leaves that to the distance and the cores are
/// far or unknown, past the cache, because pulling dirty lines across is five times slower than reading memory; unknown
/// loses no more than a third by it.
inline StoreHint store_hint(Stores stores, const Mesh& mesh) {
  if (stores != Stores::kByDistance) return stores == Stores::kPlain ? StoreHint::kPlain : StoreHint::kNonTemporal;
  return mesh.distance() == Distance::kNear ? StoreHint::kPlain : StoreHint::kNonTemporal;
}

/// Returns whether the members of the batch measure their cores' distance: the same on all of them.
bool measures_distance(const Call& call);
/// Measures the distance if `measures_distance`. Members call this once in a batch, when all are known to have begun: a
/// measurement needs both sides at the same time.
void learn_distance(const Call& call, Mesh& mesh);

/// kInvalidArgument if the plan's chunks do not fit the slots of this mesh, which a build with another layout could
/// send.
Status check_slots(const Call& call, const Mesh& mesh);

}  // namespace rueda::core
