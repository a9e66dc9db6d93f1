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

}  // namespace rueda::core
