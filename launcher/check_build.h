#pragma once
#include <string>

namespace rueda::core::launcher {

/// What `hvdrun --check-build` prints: what was built, what this machine lets us do (tried, not guessed), and what to
/// do about what is missing.
std::string check_build();

}  // namespace rueda::core::launcher
