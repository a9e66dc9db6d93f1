// Finds the hosts that a batch system reserved, so that a job script needs no -H. Names from the environment later
// become words of ssh's or srun's command line, so they pass the same check as names that the user typed.

#include "launcher/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "runtime/rendezvous/node_list.h"

namespace rueda::core::launcher {
namespace {

Status wrong(const std::string& variable, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", variable, why)};
}

// Adds up slots: PBS has a line for each slot, and LSF may list a host twice.
void add(std::vector<HostSlots>& hosts, const std::string& name, int slots) {
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& host) { return host.name == name; });
  if (known == hosts.end()) {
    hosts.push_back({name, slots, {}});
  } else {
    known->slots += slots;
  }
}

Result<std::vector<HostSlots>> read_slurm(const Environment& environment, const std::string& list) {
  const auto names = expand_nodes(list);
  if (!names.ok()) return wrong("SLURM_JOB_NODELIST", names.status().sentence());
  const std::string tasks = "SLURM_TASKS_PER_NODE", cores = "SLURM_JOB_CPUS_PER_NODE";
  const std::string variable = environment(tasks) || !environment(cores) ? tasks : cores;
  const auto text = environment(variable);
  if (!text) return wrong("SLURM_JOB_NODELIST", fmt::format("is set, but {} is not", tasks));
  const auto counts = expand_counts(*text);
  if (!counts.ok()) return wrong(variable, counts.status().sentence());
  if (counts.value().size() != names.value().size()) {
    return wrong(variable, fmt::format("\"{}\" covers {} nodes, but SLURM_JOB_NODELIST names {}", *text,
                                       counts.value().size(), names.value().size()));
  }
  std::vector<HostSlots> hosts;
  // A node may be in the list with no task on it.
  for (size_t i = 0; i < names.value().size(); ++i) {
    if (counts.value()[i] > 0) add(hosts, names.value()[i], counts.value()[i]);
  }
  return hosts;
}

Result<std::vector<HostSlots>> read_pbs(const std::string& path) {
  std::ifstream file(path);
  if (!file) return wrong("PBS_NODEFILE", fmt::format("{} cannot be read", path));
  std::vector<HostSlots> hosts;
  for (std::string name; file >> name;) add(hosts, name, 1);
  return hosts;
}

Result<std::vector<HostSlots>> read_lsf(const std::string& text) {
  std::istringstream words(text);
  std::vector<HostSlots> hosts;
  for (std::string name; words >> name;) {
    int slots = 0;
    if (!(words >> slots) || slots < 1)
      return wrong("LSB_MCPU_HOSTS", fmt::format("\"{}\" has no slots for {}", text, name));
    add(hosts, name, slots);
  }
  return hosts;
}

/// Checks each name as that of a command line: none may begin with `-` or hold a blank.
Result<std::optional<Allocation>> checked(const std::string& system, const std::string& variable,
                                          Result<std::vector<HostSlots>> hosts) {
  if (!hosts.ok()) return hosts.status();
  if (hosts.value().empty()) return wrong(variable, "names no host");
  for (const auto& host : hosts.value()) {
    const auto parsed = parse_hostfile(fmt::format("{} slots={}", host.name, host.slots));
    if (!parsed.ok()) return wrong(variable, parsed.status().sentence());
  }
  return std::optional<Allocation>(Allocation{system, std::move(hosts).value()});
}

}  // namespace

Result<std::optional<Allocation>> read_allocation(const Environment& environment) {
  if (const auto list = environment("SLURM_JOB_NODELIST"))
    return checked("Slurm", "SLURM_JOB_NODELIST", read_slurm(environment, *list));
  if (const auto path = environment("PBS_NODEFILE")) return checked("PBS", "PBS_NODEFILE", read_pbs(*path));
  if (const auto text = environment("LSB_MCPU_HOSTS")) return checked("LSF", "LSB_MCPU_HOSTS", read_lsf(*text));
  return std::optional<Allocation>();
}

std::vector<std::string> srun_command(const HostSlots& host, const std::string& hvdrun) {
  return {"srun",
          "--quiet",
          "--nodes=1",
          "--ntasks=1",
          fmt::format("--nodelist={}", host.name),
          "--overlap",     // else it waits while another step holds the host's resources
          "--unbuffered",  // else srun keeps an incomplete line, and messages have no lines
          "--cpu-bind=none",
          "--mem=0",
          "--mpi=none",
          "--kill-on-bad-exit=0",
          "--input=all",  // the agent reads hvdrun's messages there
          "--",
          hvdrun,
          "--agent"};
}

}  // namespace rueda::core::launcher
