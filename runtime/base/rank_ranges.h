#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rueda::core {

/// How every sentence names ranks. Pure: any thread.

/// Returns "rank 3 (host b, pid 77)", or "rank 3 (host b)" if `pid` is 0, which means that it is not known.
std::string rank_name(int rank, std::string_view host, int64_t pid);
/// Returns "ranks 0-2 (host a), rank 3 (host b)". `ranks` is ascending; `hosts` is by rank and may be shorter or empty.
std::string rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts);
/// Returns the same, cut behind a range before it has more than `most_bytes`: "ranks 0-2, ... (1000 ranks in all)".
std::string bounded_rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts, size_t most_bytes);

}  // namespace rueda::core
