#pragma once
#include <string>
#include <vector>

#include "ops/algorithm.h"
#include "runtime/base/plugin.h"
#include "runtime/engine/device_table.h"

namespace rueda::core {

/// What the plug-ins of a session bring. Made by init, then immutable: any thread.
struct Plugins {
  std::vector<std::span<const Algorithm>> rows;
  DeviceTable devices;
  /// "+mpi+cuda": what is appended to the build id in the exchange of init, because rows are known by their place in
  /// the table, so all ranks need the same plug-ins in the same order.
  std::string suffix;
};

/// Every plug-in that is looked for: those beside this library, then those that `listed` (RUEDA_PLUGINS) names.
std::vector<Plugin> find_plugins(const std::string& listed);

/// Loads what is found. What does not lie beside this library is not missed; what lies there and cannot be loaded is
/// logged. kUnsupported: a plug-in that `listed` names cannot be loaded, or brings what is there already.
Result<Plugins> load_plugins(const std::string& listed);

}  // namespace rueda::core
