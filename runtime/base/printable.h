#pragma once
#include <string>
#include <string_view>

namespace rueda::core {

/// Returns the text with ? for every control character that a terminal may obey: those of ASCII except the ones in
/// `kept`, and those that UTF-8 writes as C2 80 to C2 9F.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace rueda::core
