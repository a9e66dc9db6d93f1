#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rueda::core::launcher {

/// Returns the known name nearest to a mistyped one, by the restricted Damerau-Levenshtein distance (optimal string
/// alignment). Returns empty if none is near: more than a third of its letters would have to change.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& known);

}  // namespace rueda::core::launcher
