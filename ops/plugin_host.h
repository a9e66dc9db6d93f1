#pragma once
#include "runtime/base/plugin_abi.h"

namespace rueda::core {

/// What plug-ins get from this build: `bare_host` with the algorithms of `algorithms()` and `native_algorithms()`, and
/// the kernels. Lives as long as the process.
const rueda_host& plugin_host();

}  // namespace rueda::core
