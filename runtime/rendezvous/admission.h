#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/rendezvous/wish.h"

namespace rueda::core {

/// Checks that these ranks (by rank) can work together: all able to take part, the same protocol, build, size and
/// process sets, the same job key or none, the same settings marked kMustMatch. Returns kSystem with the first rank
/// that cannot take part and its reason; kMismatch with a table of the values and their ranks, the same for all ranks.
/// Pure.
Status admit(std::span<const Wish> wishes);

/// Returns a sentence for each setting marked kRankZero in which a rank differs from rank 0; rank 0 logs them. Call it
/// after `admit`. Pure.
std::vector<std::string> overruled(std::span<const Wish> wishes);

/// Whether the settings that a store gives as rank 0's (`World::agreed`) are this rank's own wherever all ranks must
/// have the same: a store that lies cannot turn off TLS or choose a codec. Returns kMismatch with each difference, and
/// what to do. Pure.
Status check_published(const std::string& agreed, const Settings& own);

}  // namespace rueda::core
