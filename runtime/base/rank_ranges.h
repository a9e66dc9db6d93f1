#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace rueda::core {

/// "ranks 0-2 (host a), rank 3 (host b)". `ranks` ascending; `hosts` by rank, may be shorter or empty.
std::string rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts);
/// The same, cut behind a range before it has more than `most_bytes`: "ranks 0-2, ... (1000 ranks in all)".
std::string bounded_rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts, size_t most_bytes);

}  // namespace rueda::core
