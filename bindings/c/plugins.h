#pragma once
#include <string>
#include <vector>

#include "ops/algorithm.h"
#include "runtime/base/plugin.h"
#include "runtime/base/settings.h"
#include "runtime/engine/device_engine.h"
#include "runtime/engine/device_table.h"
#include "runtime/net/fabric.h"

namespace rueda::core {

/// The contributions of a session's plug-ins. Made by init, then immutable: any thread.
struct Plugins {
  std::vector<std::span<const Algorithm>> algorithms;
  DeviceTable devices;
  std::vector<DeviceEngineSource*> engines;
  /// "+mpi+cuda": appended to the build id that ranks compare at init. A verdict names an algorithm by its index in the
  /// table, so all ranks need the same plug-ins in the same order.
  std::string suffix;
  FabricSource* fabric = nullptr;  ///< MPI; null: not loaded
};

/// Returns the plug-ins that are looked for: first those beside this library, then those that RUEDA_PLUGINS names.
std::vector<Plugin> find_plugins(const Settings& settings);

/// Loads all plug-ins that are found, except MPI's, because that brings the MPI library into the process. A plug-in
/// that is not beside this library is not missed; one that is there and cannot be loaded is logged. Returns
/// kUnsupported if a plug-in of RUEDA_PLUGINS cannot be loaded or repeats one that is loaded, and kSystem if there is
/// no address space for a plug-in.
Result<Plugins> load_plugins(const Settings& settings);

/// Loads MPI's plug-in as well; its algorithms count only if MPI moves the data. Returns kUnsupported if it cannot be
/// loaded.
Status load_mpi_plugin(const Settings& settings, Plugins& plugins);

}  // namespace rueda::core
