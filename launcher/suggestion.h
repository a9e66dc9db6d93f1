#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rueda::core::launcher {

/// The known name nearest to a mistyped one (Damerau-Levenshtein distance, restricted form), or empty when none is near
/// enough to be meant: more than a third of its letters would have to change.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& known);

}  // namespace rueda::core::launcher
