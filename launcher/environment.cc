#include "launcher/environment.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr std::array<std::string_view, 6> kPlaces = {"RANK",       "SIZE",       "LOCAL_RANK",
                                                     "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};

std::vector<std::string> as_list(const Variables& variables) {
  std::vector<std::string> list;
  for (const auto& [name, value] : variables) list.push_back(fmt::format("{}={}", name, value));
  return list;
}

}  // namespace

std::vector<std::string> job_environment(const Variables& own, const Variables& knobs, const std::string& job) {
  Variables variables = own;
  for (const auto place : kPlaces) {
    variables.erase(fmt::format("RUEDA_{}", place));
    variables.erase(fmt::format("HOROVOD_{}", place));
  }
  for (const char* name : {"RUEDA_HOSTNAME", "RUEDA_STORE_ADDR", "RUEDA_JOB_KEY_FD", "RUEDA_JOB_KEY_FILE"})
    variables.erase(name);
  for (const auto& [name, value] : knobs) variables[name] = value;
  variables["RUEDA_JOB"] = job;
  variables["RUEDA_STORE"] = "launcher";       // it is hvdrun who serves there, not rank 0
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
  }
  return as_list(variables);
}

}  // namespace rueda::core::launcher
