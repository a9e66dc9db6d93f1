#pragma once
#include "runtime/base/device_functions.h"

namespace rueda::core {

/// The functions of host memory: no streams, every mark is passed.
const DeviceFunctions& cpu_device();

}  // namespace rueda::core
