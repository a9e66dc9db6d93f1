#pragma once
#include "runtime/base/environment.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// Whether this process can do what its settings ask for, as far as their text does not tell. kUnsupported: a transport
/// whose plug-in is not there, with where it was looked for. kInvalidArgument: cores that this process may not use.
/// Both name the variable, as `environment` has it, and its value.
Status check_settings(const Settings& settings, const Environment& environment);

}  // namespace rueda::core
