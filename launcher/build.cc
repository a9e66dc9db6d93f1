#include "launcher/build.h"

namespace rueda::core::launcher {

std::string version() { return RUEDA_VERSION; }
std::string compiler() { return RUEDA_COMPILER; }
std::string build_id() { return RUEDA_VERSION "-" RUEDA_BUILD_TYPE; }

}  // namespace rueda::core::launcher
