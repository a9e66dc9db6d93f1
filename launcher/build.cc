// The only file that is compiled with the version and the compiler in its flags, so that a new version recompiles
// nothing else.

#include "launcher/build.h"

namespace rueda::core::launcher {

std::string version() { return RUEDA_VERSION; }
std::string compiler() { return RUEDA_COMPILER; }

}  // namespace rueda::core::launcher
