#pragma once
#include <cstdint>

namespace rueda::core {

/// How a kernel writes memory that another core will read: through the cache, or past it (see runtime/net/distance.h).
/// After non-temporal stores the kernel itself issues the store fence.
enum class StoreHint { kPlain, kNonTemporal };

/// The same for a whole batch, as its plan says it: one of the two, or what the measured distance of the cores
/// suggests.
enum class Stores : uint8_t { kByDistance, kPlain, kNonTemporal };

/// How the members of a batch wait for each other: they spin for a short while before they sleep, or sleep at once,
/// which leaves their cores to others. kChosen: by trial, and kSpin without one.
enum class Waits : uint8_t { kChosen, kSpin, kSleep };

/// How far a peer's core is (see runtime/net/distance.h). `kNear`: in the same cache domain, a cache line's round trip
/// takes about 100 ns. `kFar`: in another one, about 480 ns.
enum class Distance : uint8_t { kUnknown, kNear, kFar };
constexpr const char* name_of(Distance distance) {
  return distance == Distance::kNear ? "near" : distance == Distance::kFar ? "far" : "unknown";
}

}  // namespace rueda::core
