#pragma once
#include <span>
#include <string>

namespace rueda::core {

/// "ranks 0-2 (host a), rank 3 (host b)". `ranks` ascending; `hosts` by rank, may be shorter or empty.
std::string rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts);

}  // namespace rueda::core
