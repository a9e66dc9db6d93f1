#pragma once
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/engine/device.h"

namespace rueda::core {

/// The kinds of memory that tensors may lie in: the host's, and those of plug-ins. One thread fills it before it is
/// used; then it is immutable, for any thread. The functions are borrowed for the process's life.
class DeviceTable {
 public:
  DeviceTable() : kinds_{&cpu_device()} {}
  /// Returns kUnsupported, naming the device, if its struct has another size or its kind is taken.
  Status add(std::span<const DeviceFunctions> devices);
  /// `kind` is rueda_tensor.device. Returns null if there is no such kind.
  const DeviceFunctions* find(int32_t kind) const;

 private:
  std::vector<const DeviceFunctions*> kinds_;
};

}  // namespace rueda::core
