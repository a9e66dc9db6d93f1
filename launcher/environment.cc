#include "launcher/environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr std::array<std::string_view, 6> kPlaces = {"RANK",       "SIZE",       "LOCAL_RANK",
                                                     "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};

// The first of these places in the words of torch.distributed, which has none for the others.
constexpr std::array<std::string_view, 4> kTorchPlaces = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

/// Where ranks of torch.distributed find their own store, which rank 0 opens: below the ports that kernels give to
/// clients, and seldom the same for two jobs.
std::string port_for(const std::string& job) {
  constexpr uint32_t kFirst = 20000, kPorts = 12000;
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return std::to_string(kFirst + hash % kPorts);
}

std::vector<std::string> as_list(const Variables& variables) {
  std::vector<std::string> list;
  for (const auto& [name, value] : variables) list.push_back(fmt::format("{}={}", name, value));
  return list;
}

}  // namespace

std::vector<std::string> job_environment(const Variables& own, const Variables& knobs, const std::string& job,
                                         const std::string& master) {
  Variables variables = own;
  for (const auto place : kTorchPlaces) variables.erase(std::string(place));
  for (const auto place : kPlaces) {
    variables.erase(fmt::format("RUEDA_{}", place));
    variables.erase(fmt::format("HOROVOD_{}", place));
  }
  for (const char* name : {"RUEDA_HOSTNAME", "RUEDA_STORE_ADDR", "RUEDA_JOB_KEY_FD", "RUEDA_JOB_KEY_FILE"})
    variables.erase(name);
  for (const auto& [name, value] : knobs) variables[name] = value;
  variables["RUEDA_JOB"] = job;
  variables["RUEDA_STORE"] = "launcher";  // it is hvdrun who serves there, not rank 0
  variables.emplace("MASTER_ADDR", master);
  variables.emplace("MASTER_PORT", port_for(job));
  variables.emplace("PYTHONUNBUFFERED", "1");  // into a pipe Python would hold its lines back
  return as_list(variables);
}

std::vector<std::string> rank_environment(const Placement& placement) {
  const std::array<int, kPlaces.size()> values = {placement.rank,       placement.size,       placement.local_rank,
                                                  placement.local_size, placement.cross_rank, placement.cross_size};
  Variables variables{{"RUEDA_HOSTNAME", placement.host}};
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    variables[fmt::format("RUEDA_{}", kPlaces[i])] = std::to_string(values[i]);
    variables[fmt::format("HOROVOD_{}", kPlaces[i])] = std::to_string(values[i]);
    if (i < kTorchPlaces.size()) variables[std::string(kTorchPlaces[i])] = std::to_string(values[i]);
  }
  return as_list(variables);
}

}  // namespace rueda::core::launcher
