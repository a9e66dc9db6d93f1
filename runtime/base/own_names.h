#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rueda::core {

/// Names of process sets that begin with this belong to the library; programs cannot give them.
inline constexpr std::string_view kOwnNames = "rueda.";
/// Returns the name of the set in which `sender` sends to `receiver`.
std::string pair_name(int sender, int receiver);
/// Returns sender and receiver, or nothing if `name` is not such a name.
std::optional<std::pair<int, int>> pair_of(std::string_view name);

}  // namespace rueda::core
