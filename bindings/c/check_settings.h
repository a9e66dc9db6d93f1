#pragma once
#include "runtime/base/environment.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// Checks the settings that depend on this machine and process. Returns kUnsupported if a transport's plug-in is
/// missing, with the paths that were tried, and kInvalidArgument if the process may not use a core that it shall use.
/// Both sentences name the variable, as `environment` has it, and its value.
Status check_settings(const Settings& settings, const Environment& environment);

}  // namespace rueda::core
