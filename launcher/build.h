#pragma once
#include <string>

namespace rueda::core::launcher {

/// "1.0.0".
std::string version();
/// What must be equal on both ends of a link: version, compiler and kind of build.
std::string build_id();
/// The compiler, as in "GNU 12.2.0".
std::string compiler();

}  // namespace rueda::core::launcher
