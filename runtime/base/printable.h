#pragma once
#include <string>
#include <string_view>

namespace rueda::core {

/// The text with ? for what a terminal would take for a command: control characters of ASCII but for those in `kept`,
/// and those that UTF-8 writes as C2 80 to C2 9F.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace rueda::core
