#pragma once
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/engine/device.h"

namespace rueda::core {

/// The kinds of memory that tensors may lie in: the host's, and those of plug-ins. One thread fills it before it is
/// used; then it is immutable, for any thread. Rows are borrowed for the process's life.
class DeviceTable {
 public:
  DeviceTable() : rows_{&cpu_device()} {}
  /// Returns kUnsupported, naming the row, if the row has another size or its kind is taken.
  Status add(std::span<const DeviceRow> rows);
  /// `kind` is rueda_tensor.device. Null if no row serves it.
  const DeviceRow* find(int32_t kind) const;

 private:
  std::vector<const DeviceRow*> rows_;
};

}  // namespace rueda::core
