// The environment of ranks. Variables of an outer job come off first: a job script may itself be a rank, and its RANK
// or store address would send the new ranks to the wrong job. Flags come after the environment, because they win over
// it.

#include "launcher/environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr std::array<std::string_view, 6> kPositions = {"RANK",       "SIZE",       "LOCAL_RANK",
                                                        "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};

// The first of kPositions under the names of torch.distributed, which has none for the others.
constexpr std::array<std::string_view, 4> kTorchPositions = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

/// The port for torch.distributed's own store, which its rank 0 opens. It is below the ports that Linux gives to
/// clients (32768 on), and a hash of the job's name, so that two jobs of one host rarely choose the same.
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
  for (const auto position : kTorchPositions) variables.erase(std::string(position));
  for (const auto position : kPositions) {
    variables.erase(fmt::format("RUEDA_{}", position));
    variables.erase(fmt::format("HOROVOD_{}", position));
  }
  for (const char* name :
       {"RUEDA_HOSTNAME", "HOROVOD_HOSTNAME", "RUEDA_STORE_ADDR", "RUEDA_JOB_KEY_FD", "RUEDA_JOB_KEY_FILE",
        "RUEDA_ELASTIC", "RUEDA_WORKER_ID", "RUEDA_REJOIN_TIMEOUT", "RUEDA_ADMIT", "HOROVOD_ELASTIC"})
    variables.erase(name);
  for (const auto& [name, value] : knobs) variables[name] = value;
  variables["RUEDA_JOB"] = job;
  variables["RUEDA_STORE"] = "launcher";  // hvdrun serves the store, not rank 0
  if (!master.empty()) variables.emplace("MASTER_ADDR", master);
  variables.emplace("MASTER_PORT", port_for(job));
  variables.emplace("PYTHONUNBUFFERED", "1");  // Python holds lines back if stdout is a pipe
  return as_list(variables);
}

std::vector<std::string> rank_environment(const Placement& placement) {
  const std::array<int, kPositions.size()> values = {placement.rank,       placement.size,       placement.local_rank,
                                                     placement.local_size, placement.cross_rank, placement.cross_size};
  Variables variables{{"RUEDA_HOSTNAME", placement.host}, {"HOROVOD_HOSTNAME", placement.host}};
  for (size_t i = 0; i < kPositions.size(); ++i) {
    variables[fmt::format("RUEDA_{}", kPositions[i])] = std::to_string(values[i]);
    variables[fmt::format("HOROVOD_{}", kPositions[i])] = std::to_string(values[i]);
    if (i < kTorchPositions.size()) variables[std::string(kTorchPositions[i])] = std::to_string(values[i]);
  }
  return as_list(variables);
}

std::vector<std::string> worker_environment(const WorkerStart& start) {
  std::vector<std::string> variables = rank_environment(start.placement);
  for (const char* name : {"RUEDA_ELASTIC=1", "HOROVOD_ELASTIC=1"}) variables.emplace_back(name);
  variables.push_back(fmt::format("RUEDA_WORKER_ID={}", start.worker));
  variables.push_back(fmt::format("RUEDA_REJOIN_TIMEOUT={}", std::chrono::duration<double>(start.rejoin).count()));
  variables.push_back("RUEDA_ADMIT=" + start.admit);
  if (!start.master.empty()) variables.push_back(fmt::format("MASTER_ADDR={}", start.master));
  return variables;
}

}  // namespace rueda::core::launcher
