#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rueda::core {

/// Names of process sets that begin so are the library's own.
inline constexpr std::string_view kOwnNames = "rueda.";
/// That of the set in which `sender` sends to `receiver`.
std::string pair_name(int sender, int receiver);
/// Sender and receiver; nothing: it is no such name.
std::optional<std::pair<int, int>> pair_of(std::string_view name);

}  // namespace rueda::core
