#include "launcher/build.h"

namespace rueda::core::launcher {

std::string version() { return RUEDA_VERSION; }
std::string compiler() { return RUEDA_COMPILER; }

}  // namespace rueda::core::launcher
