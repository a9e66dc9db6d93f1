#pragma once
#include <string>
#include <vector>

#include "ops/algorithm.h"
#include "runtime/base/plugin.h"
#include "runtime/base/settings.h"
#include "runtime/engine/device_table.h"
#include "runtime/net/fabric.h"

namespace rueda::core {

/// What the plug-ins of a session bring. Made by init, then immutable: any thread.
struct Plugins {
  std::vector<std::span<const Algorithm>> rows;
  DeviceTable devices;
  /// "+mpi+cuda": what is appended to the build id in the exchange of init, because rows are known by their place in
  /// the table, so all ranks need the same plug-ins in the same order.
  std::string suffix;
  FabricSource* fabric = nullptr;  ///< MPI; null: not loaded
};

/// Every plug-in that is looked for: those beside this library, then those that RUEDA_PLUGINS names.
std::vector<Plugin> find_plugins(const Settings& settings);

/// Loads what is found, MPI's apart, which brings the MPI library into the process. What does not lie beside this
/// library is not missed; what lies there and cannot be loaded is logged. kUnsupported: a plug-in that RUEDA_PLUGINS
/// names cannot be loaded, or brings what is there already.
Result<Plugins> load_plugins(const Settings& settings);

/// Loads MPI's as well; its rows count only where MPI moves the data. kUnsupported: it cannot be loaded.
Status load_mpi_plugin(const Settings& settings, Plugins& plugins);

}  // namespace rueda::core
