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
  if (table.row_count > 0) plugins.rows.emplace_back(table.rows, table.row_count);
  plugins.suffix += std::string("+") + table.name;
  return {};
}

}  // namespace

std::vector<Plugin> find_plugins(const std::string& listed) {
  std::vector<Plugin> found = open_standard_plugins(own_folder(), plugin_host());
  for (Plugin& plugin : open_listed_plugins(listed, plugin_host())) found.push_back(std::move(plugin));
  return found;
}

Result<Plugins> load_plugins(const std::string& listed) {
  Plugins plugins;
  for (const Plugin& plugin : open_standard_plugins(own_folder(), plugin_host())) {
    if (plugin.status.ok()) {
      RUEDA_RETURN_IF_ERROR(add_plugin(plugin, plugins));
    } else if (::access(plugin.path.c_str(), F_OK) == 0) {
      log(LogLevel::kWarning, "{}", plugin.status.sentence());
    }
  }
  for (const Plugin& plugin : open_listed_plugins(listed, plugin_host())) {
    if (!plugin.status.ok()) return Status(plugin.status.code(), "RUEDA_PLUGINS: " + plugin.status.sentence());
    RUEDA_RETURN_IF_ERROR(add_plugin(plugin, plugins));
  }
  return plugins;
}

}  // namespace rueda::core
