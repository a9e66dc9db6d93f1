// Plug-ins are built apart from the library, so a row says its own size: a row of another version is refused with a
// sentence before any of its functions is called.
#include "runtime/engine/device_table.h"

#include <fmt/format.h>

namespace rueda::core {

Status DeviceTable::add(std::span<const DeviceRow> rows) {
  for (const DeviceRow& row : rows) {
    if (row.struct_size != sizeof(DeviceRow)) {
      return {Code::kUnsupported,
              fmt::format("a device row has {} bytes; this build expects {}", row.struct_size, sizeof(DeviceRow))};
    }
    if (row.kind < 0)
      return {Code::kUnsupported,
              fmt::format("device \"{}\" has kind {}; kinds of plug-ins begin at 1", row.name, row.kind)};
    if (const DeviceRow* known = find(row.kind)) {
      return {Code::kUnsupported,
              fmt::format("device \"{}\" has kind {}, which \"{}\" already has", row.name, row.kind, known->name)};
    }
    rows_.push_back(&row);
  }
  return {};
}

/// A process knows two or three kinds, so a walk is as good as a map.
const DeviceRow* DeviceTable::find(int32_t kind) const {
  for (const DeviceRow* row : rows_) {
    if (row->kind == kind) return row;
  }
  return nullptr;
}

}  // namespace rueda::core
