#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

using Variables = std::map<std::string, std::string>;

/// Returns the variables of all ranks: hvdrun's own environment without those that describe a rank, a store or a key of
/// an outer job, then the settings given as flags, then the job's name. Each agent adds the store's address, which
/// differs by host. Adds MASTER_ADDR (`master`, the host of rank 0; empty: each rank gets its own) and MASTER_PORT for
/// scripts of torch.distributed, unless `own` has them. Pure.
std::vector<std::string> job_environment(const Variables& own, const Variables& knobs, const std::string& job,
                                         const std::string& master);

/// Returns the variables of one rank: its rank and size in the job, on its host and across hosts, under our names,
/// Horovod's and torch.distributed's. They replace those of hvdrun's own environment, which have one value for all.
/// Pure.
std::vector<std::string> rank_environment(const Placement& placement);

/// A worker of an elastic job at its start.
struct WorkerStart {
  int64_t worker = 0;
  Placement placement;
  std::string master;                   ///< the host of rank 0 for MASTER_ADDR; empty if the job's variables have it
  std::chrono::milliseconds rejoin{0};  ///< --rejoin-timeout
  std::string admit;                    ///< --admit: when the members are told of a new worker
};

/// The same for a worker of an elastic job, with its number and what else it has to know of the job. Pure.
std::vector<std::string> worker_environment(const WorkerStart& start);

}  // namespace rueda::core::launcher
