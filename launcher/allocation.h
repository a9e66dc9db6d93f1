#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

/// The hosts that a batch system gave to this job.
struct Allocation {
  std::string system;  ///< "Slurm", "PBS", "LSF"
  std::vector<HostSlots> hosts;
};

/// Reads the allocation from the environment, of the first batch system that has set its variables:
///
///   Slurm  SLURM_JOB_NODELIST with SLURM_TASKS_PER_NODE, else one slot for each core of SLURM_JOB_CPUS_PER_NODE
///   PBS    the file PBS_NODEFILE: a line for each slot
///   LSF    LSB_MCPU_HOSTS: host slots host slots ...
///
/// Empty if there is no allocation. Returns kInvalidArgument, naming the variable, if it cannot be read.
Result<std::optional<Allocation>> read_allocation(const Environment& environment);

/// Returns the words that start an agent on a host of a Slurm allocation, as a step of its own that shares the host's
/// resources with other steps; `hvdrun` as for `ssh_command`.
std::vector<std::string> srun_command(const HostSlots& host, const std::string& hvdrun);

}  // namespace rueda::core::launcher
