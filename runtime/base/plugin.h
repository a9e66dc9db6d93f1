#pragma once
#include <string>
#include <vector>

#include "runtime/base/plugin_abi.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// The host's table without rows: memory, clock, log, abort, and a `find_algorithm` that finds none. Enough to look at
/// a plug-in; `plugin_host` of ops has the rows.
rueda_host bare_host();

/// Opens the library at `path` for as long as the process lives and asks for its table; again and again gives the same.
/// `host` lives as long. kUnsupported, with a sentence for people: no such file, no library, no `rueda_plugin` in it,
/// or it is of another ABI or build.
Result<const rueda_plugin_table*> open_plugin(const std::string& path, const rueda_host& host);

/// A plug-in that was looked for.
struct Plugin {
  std::string path;
  const rueda_plugin_table* table = nullptr;  ///< null where the status is not ok
  Status status;                              ///< why it is not there
};

/// Where the plug-ins that come with Rueda lie: in `folder`, and MPI's at the path `named` (RUEDA_MPI_PLUGIN) if that
/// is not empty.
std::string mpi_plugin_path(const std::string& folder, const std::string& named);
std::string cuda_plugin_path(const std::string& folder);
/// The plug-in at `path`, opened if it can be. Any thread.
Plugin look_at_plugin(const std::string& path, const rueda_host& host);
/// Both of those that come with Rueda: MPI's, then CUDA's.
std::vector<Plugin> open_standard_plugins(const std::string& folder, const std::string& mpi_plugin,
                                          const rueda_host& host);
/// Those at the paths in `listed`, colons between them (RUEDA_PLUGINS).
std::vector<Plugin> open_listed_plugins(const std::string& listed, const rueda_host& host);

/// The folder of the library or program that holds this code; empty where the system does not say.
std::string own_folder();

}  // namespace rueda::core
