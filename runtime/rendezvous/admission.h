#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/rendezvous/wish.h"

namespace rueda::core {

/// Whether these ranks (by rank) can work together: the same protocol, build, size, the same job key or none, and
/// settings marked kMustMatch. kMismatch: a table of who has what, for all ranks alike. Pure.
Status admit(std::span<const Wish> wishes);

/// Settings marked kRankZero in which a rank differs from rank 0: a sentence each, for rank 0 to log. Only after
/// `admit`.
std::vector<std::string> overruled(std::span<const Wish> wishes);

/// Whether the settings that a store gives as rank 0's (`World::agreed`) are this rank's own wherever all ranks must
/// have the same: a store that lies cannot turn off TLS or choose a codec. Returns kMismatch with each difference, and
/// what to do. Pure.
Status check_published(const std::string& agreed, const Settings& own);

}  // namespace rueda::core
