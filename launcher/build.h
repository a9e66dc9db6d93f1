#pragma once
#include <string>

namespace rueda::core::launcher {

/// "1.0.0".
std::string version();
/// The compiler, as in "GNU 12.2.0".
std::string compiler();

}  // namespace rueda::core::launcher
