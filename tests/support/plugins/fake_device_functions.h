#pragma once
#include "runtime/base/device_row.h"
#include "runtime/base/plugin_abi.h"

namespace rueda::test {

/// The row of the fake device, which takes its memory from `host`.
const core::DeviceRow* fake_device_row(const rueda_host* host);

}  // namespace rueda::test
