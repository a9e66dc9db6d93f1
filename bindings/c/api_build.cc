// The functions of rueda.h about the build and the log.
#include <nlohmann/json.hpp>
#include <string>

#include "bindings/c/plugins.h"
#include "bindings/c/rueda.h"
#include "ops/algorithm.h"
#include "ops/kernels/reduce.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/rendezvous/wish.h"

namespace rueda::core {
namespace {

nlohmann::ordered_json describe_plugin(const Plugin& plugin) {
  nlohmann::ordered_json text{{"path", plugin.path}, {"loaded", plugin.status.ok()}};
  if (plugin.status.ok()) {
    text["name"] = plugin.table->name;
    if (plugin.table->fabric != nullptr) {
      const Result<std::string> library = plugin.table->fabric->library();
      text["library"] = library.ok() ? library.value() : library.status().sentence();
    }
  } else {
    text["why"] = plugin.status.sentence();
  }
  return text;
}

std::string describe_build() {
  nlohmann::ordered_json build;
  build["version"] = RUEDA_VERSION_TEXT;
  build["build_id"] = build_id();
  build["compiler"] = __VERSION__;
  build["protocol"] = kProtocolNumber;
  build["kernels"] = kernel_set_name();
  build["algorithms"] = nlohmann::ordered_json::array();
  for (const Algorithm& algorithm : algorithms()) {
    build["algorithms"].push_back(std::string(name_of(algorithm.kind)) + "/" + algorithm.name);
  }
  build["plugins"] = nlohmann::ordered_json::array();
  const Result<Settings> settings = read_settings(process_environment());
  for (const Plugin& plugin : find_plugins(settings.ok() ? settings.value() : Settings())) {
    build["plugins"].push_back(describe_plugin(plugin));
  }
  return build.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);  // a path may be any bytes
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

const char* rueda_version(void) { return RUEDA_VERSION_TEXT; }

const char* rueda_build_info(void) {
  static const auto* text = new std::string(core::describe_build());
  return text->c_str();
}

void rueda_set_log_callback(rueda_log_callback callback, void* context) {
  if (callback == nullptr) {
    core::set_log_sink({});
    return;
  }
  core::set_log_sink([callback, context](core::LogLevel level, std::string_view line) {
    callback(context, static_cast<int32_t>(level), std::string(line).c_str());
  });
}
