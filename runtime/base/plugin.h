#pragma once
#include <string>
#include <vector>

#include "runtime/base/plugin_abi.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Returns the host's table without algorithms: memory, clock, log, abort, and a `find_algorithm` that finds none.
/// Enough to look at a plug-in; `plugin_host` of ops has the algorithms.
rueda_host bare_host();

/// Bytes that plug-ins of this process have said they hold. Any thread.
uint64_t plugin_bytes();

/// Opens the library at `path` and asks it for its table. The library stays open as long as the process lives, and
/// `host` must live as long; a second call returns the same table. Returns kUnsupported if there is no such file, it is
/// not a library, it has no `rueda_plugin`, it refuses, or it belongs to another ABI or build.
Result<const rueda_plugin_table*> open_plugin(const std::string& path, const rueda_host& host);

/// A plug-in that was looked for.
struct Plugin {
  std::string path;
  const rueda_plugin_table* table = nullptr;  ///< null if the status is not ok
  Status status;                              ///< why there is no table
};

/// Returns the path of a plug-in that comes with Rueda: in `folder`, or for MPI's `named` (RUEDA_MPI_PLUGIN) if that is
/// not empty.
std::string mpi_plugin_path(const std::string& folder, const std::string& named);
std::string cuda_plugin_path(const std::string& folder);
/// Opens the plug-in at `path` if possible. Any thread.
Plugin look_at_plugin(const std::string& path, const rueda_host& host);
/// Opens the two that come with Rueda: MPI's, then CUDA's.
std::vector<Plugin> open_standard_plugins(const std::string& folder, const std::string& mpi_plugin,
                                          const rueda_host& host);
/// Opens those at the paths in `listed`, separated by colons (RUEDA_PLUGINS).
std::vector<Plugin> open_listed_plugins(const std::string& listed, const rueda_host& host);

/// Returns the folder of the library or program that holds this code; empty if the system does not say.
std::string own_folder();

}  // namespace rueda::core
