#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/rank_ranges.h"

namespace rueda::core {

/// Names a process set for people: `process set "trio" (ranks 0-2)`, or `the process set of ranks 0-2` if it has no
/// name. `ranks` in any order.
std::string set_words(std::string_view name, std::vector<int> ranks);
/// The same to stand behind an operation: ` of process set "trio" (ranks 0-2)`. For the pair of a send and its receive,
/// which readers do not know as a set: ` from rank 2 to rank 0`.
std::string of_set(std::string_view name, const std::vector<int>& ranks);

/// Returns `ranks 0-1 (host a) have joined and wait for rank 2 (host a)`. Ranks ascending, neither list empty.
std::string who_joined(const std::vector<int>& joined, const std::vector<int>& missing, const RankNames& names);

}  // namespace rueda::core
