#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core {

/// Expand Slurm's compressed lists. Pure.
///
///   expand_nodes("node[07-09,12],gpu1")    node07 node08 node09 node12 gpu1
///   expand_counts("4(x2),1")               4 4 1
///
/// Return kInvalidArgument with the list if it is malformed or has more than 65,536 items.
Result<std::vector<std::string>> expand_nodes(std::string_view list);
Result<std::vector<int>> expand_counts(std::string_view list);

}  // namespace rueda::core
