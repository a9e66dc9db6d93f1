#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core {

/// Slurm's short forms, written out. Pure.
///
///   expand_nodes("node[07-09,12],gpu1")    node07 node08 node09 node12 gpu1
///   expand_counts("4(x2),1")               4 4 1
///
/// kInvalidArgument quotes what is none of that, or names more than 65,536 things.
Result<std::vector<std::string>> expand_nodes(std::string_view list);
Result<std::vector<int>> expand_counts(std::string_view list);

}  // namespace rueda::core
