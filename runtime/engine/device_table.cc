// Collects the kinds of memory that plug-ins bring.
//
// Plug-ins are built apart from the library, so a device's struct says its own size: one of another version is refused
// with a sentence before any of its functions is called.
#include "runtime/engine/device_table.h"

#include <fmt/format.h>

namespace rueda::core {

Status DeviceTable::add(std::span<const DeviceFunctions> devices) {
  for (const DeviceFunctions& device : devices) {
    if (device.struct_size != sizeof(DeviceFunctions)) {
      return {Code::kUnsupported, fmt::format("a device's functions have {} bytes; this build expects {}",
                                              device.struct_size, sizeof(DeviceFunctions))};
    }
    if (device.kind < 0)
      return {Code::kUnsupported,
              fmt::format("device \"{}\" has kind {}; kinds of plug-ins begin at 1", device.name, device.kind)};
    if (const DeviceFunctions* known = find(device.kind)) {
      return {Code::kUnsupported, fmt::format("device \"{}\" has kind {}, which \"{}\" already has", device.name,
                                              device.kind, known->name)};
    }
    kinds_.push_back(&device);
  }
  return {};
}

/// A process knows two or three kinds, so a walk is as good as a map.
const DeviceFunctions* DeviceTable::find(int32_t kind) const {
  for (const DeviceFunctions* device : kinds_) {
    if (device->kind == kind) return device;
  }
  return nullptr;
}

}  // namespace rueda::core
