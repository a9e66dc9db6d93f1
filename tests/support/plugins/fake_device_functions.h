#pragma once
#include "runtime/base/device_functions.h"
#include "runtime/base/plugin_abi.h"

namespace rueda::test {

/// The functions of the fake device, which takes its memory from `host`.
const core::DeviceFunctions* fake_device_functions(const rueda_host* host);

}  // namespace rueda::test
