#pragma once
#include "runtime/base/plugin_abi.h"

namespace rueda::core {

/// What plug-ins get from this build: `bare_host` with the rows of `algorithms()`. Lives as long as the process.
const rueda_host& plugin_host();

}  // namespace rueda::core
