#pragma once
#include <string>

namespace rueda::core::launcher {

/// The text of `hvdrun --check-build` for this machine: what was built, what the machine allows (each call is tried,
/// not guessed), and what to do about what is missing. Opens all plug-ins, which run code of their libraries.
std::string check_build();

}  // namespace rueda::core::launcher
