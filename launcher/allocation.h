#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

/// The hosts that a batch system gave us.
struct Allocation {
  std::string system;  ///< "Slurm", "PBS", "LSF"
  std::vector<HostSlots> hosts;
};

/// Read from the environment, the first that is there:
///
///   Slurm  SLURM_JOB_NODELIST with SLURM_TASKS_PER_NODE, else one slot for each core of SLURM_JOB_CPUS_PER_NODE
///   PBS    the file PBS_NODEFILE: a line for each slot
///   LSF    LSB_MCPU_HOSTS: host slots host slots ...
///
/// Empty: no allocation. kInvalidArgument: it is there and cannot be read; names the variable.
Result<std::optional<Allocation>> read_allocation(const Environment& environment);

/// The words that start an agent on a host of a Slurm allocation, as a step of its own that shares the host's resources
/// with others; `hvdrun` as for `ssh_command`.
std::vector<std::string> srun_command(const HostSlots& host, const std::string& hvdrun);

}  // namespace rueda::core::launcher
