#pragma once
#include "ops/algorithm.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// What all algorithms over shared memory ask of a batch: one host, more than one rank, host memory.
inline bool shm_fits(const BatchShape& shape) { return shape.one_host && shape.ranks > 1 && shape.device < 0; }

/// Batches from here on take 100 us or more, so that measuring the distance costs little beside them.
inline constexpr int64_t kMeasuredBytes = 1 << 20;

/// How a writer stores what its peers will read: as the plan says. If it leaves that to the distance and the cores are
/// far or unknown, past the cache, because pulling dirty lines across is five times slower than reading memory; unknown
/// loses no more than a third by it.
inline StoreHint store_hint(Stores stores, const Mesh& mesh) {
  if (stores != Stores::kByDistance) return stores == Stores::kPlain ? StoreHint::kPlain : StoreHint::kNonTemporal;
  return mesh.distance() == Distance::kNear ? StoreHint::kPlain : StoreHint::kNonTemporal;
}

/// kInvalidArgument if the plan's chunks do not fit the slots of this mesh, which a build with another layout could
/// send.
Status check_slots(const Call& call, const Mesh& mesh);

}  // namespace rueda::core
