#pragma once
#include "runtime/base/device_row.h"

namespace rueda::core {

/// The row of host memory: no streams, every mark is passed.
const DeviceRow& cpu_device();

}  // namespace rueda::core
