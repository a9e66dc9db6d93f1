// Finds and loads plug-ins: those beside this library and those that RUEDA_PLUGINS names. The MPI plug-in is loaded
// apart, and only if it is asked for, because it brings an MPI library into the process.
#include "bindings/c/plugins.h"

#include <unistd.h>

#include "ops/plugin_host.h"
#include "runtime/base/log.h"

namespace rueda::core {
namespace {

Status add_plugin(const Plugin& plugin, Plugins& plugins) {
  const rueda_plugin_table& table = *plugin.table;
  if (const Status taken = plugins.devices.add({table.devices, table.device_count}); !taken.ok()) {
    return {taken.code(), "plug-in " + plugin.path + ": " + taken.sentence()};
  }
  if (table.algorithm_count > 0) plugins.algorithms.emplace_back(table.algorithms, table.algorithm_count);
  if (table.engines != nullptr) plugins.engines.push_back(table.engines);
  plugins.suffix += std::string("+") + table.name;
  return {};
}

}  // namespace

std::vector<Plugin> find_plugins(const Settings& settings) {
  std::vector<Plugin> found = open_standard_plugins(own_folder(), settings.mpi_plugin, plugin_host());
  for (Plugin& plugin : open_listed_plugins(settings.plugins, plugin_host())) found.push_back(std::move(plugin));
  return found;
}

Result<Plugins> load_plugins(const Settings& settings) {
  Plugins plugins;
  const Plugin cuda = look_at_plugin(cuda_plugin_path(own_folder()), plugin_host());
  if (cuda.status.ok()) {
    RUEDA_RETURN_IF_ERROR(add_plugin(cuda, plugins));
  } else if (cuda.status.code() == Code::kSystem) {
    return cuda.status;  // peers have it, so that going on without it ends in a sentence about different programs
  } else if (::access(cuda.path.c_str(), F_OK) == 0) {
    log(LogLevel::kWarning, "{}", cuda.status.sentence());
  }
  for (const Plugin& plugin : open_listed_plugins(settings.plugins, plugin_host())) {
    if (!plugin.status.ok()) return Status(plugin.status.code(), "RUEDA_PLUGINS: " + plugin.status.sentence());
    RUEDA_RETURN_IF_ERROR(add_plugin(plugin, plugins));
  }
  return plugins;
}

Status load_mpi_plugin(const Settings& settings, Plugins& plugins) {
  const Plugin mpi = look_at_plugin(mpi_plugin_path(own_folder(), settings.mpi_plugin), plugin_host());
  if (!mpi.status.ok()) {
    return {mpi.status.code(), mpi.status.sentence() + "; run rueda-build-mpi to make one for the mpicc in the PATH"};
  }
  if (mpi.table->fabric == nullptr) {
    return {Code::kUnsupported,
            "plug-in " + mpi.path + " is not the MPI plug-in: its name is \"" + mpi.table->name + "\""};
  }
  plugins.fabric = mpi.table->fabric;
  return settings.cpu_operations == "mpi" ? add_plugin(mpi, plugins) : Status();
}

}  // namespace rueda::core
