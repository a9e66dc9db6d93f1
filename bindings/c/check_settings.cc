// Checks of settings that need the machine: whether the MPI plug-in can be loaded, and whether this process may use the
// cores that it was told to use. They run before other ranks are met, so that a mistake is told at once and not after a
// timeout.
#include "bindings/c/check_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings/c/plugins.h"
#include "runtime/base/knob_values.h"
#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

std::string variable_of(const Environment& environment, const std::string& knob) {
  return (environment("RUEDA_" + knob) ? "RUEDA_" : "HOROVOD_") + knob;
}

Status check_mpi(const std::string& variable, const std::string& value, const Settings& settings) {
  if (value != "mpi") return {};
  Plugins scratch;
  const Status loaded = load_mpi_plugin(settings, scratch);
  if (loaded.ok()) return {};
  return {Code::kUnsupported, fmt::format("{} is \"mpi\", but its plug-in is missing: {}; \"tcp\" needs no plug-in",
                                          variable, loaded.sentence())};
}

Status check_cores(const std::string& variable, const std::vector<int>& asked) {
  const std::vector<int> usable = allowed_cores();
  if (usable.empty()) return {};  // the system does not say
  for (const int core : asked) {
    if (std::find(usable.begin(), usable.end(), core) != usable.end()) continue;
    return {Code::kInvalidArgument, fmt::format("{}: \"{}\" names core {}, but this process may use {}", variable,
                                                print_cores(asked), core, print_cores(usable))};
  }
  return {};
}

}  // namespace

Status check_settings(const Settings& settings, const Environment& environment) {
  RUEDA_RETURN_IF_ERROR(check_mpi(variable_of(environment, "CONTROLLER"), settings.controller, settings));
  RUEDA_RETURN_IF_ERROR(check_mpi(variable_of(environment, "CPU_OPERATIONS"), settings.cpu_operations, settings));
  return check_cores(variable_of(environment, "THREAD_AFFINITY"), settings.thread_affinity);
}

}  // namespace rueda::core
