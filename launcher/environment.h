#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

using Variables = std::map<std::string, std::string>;

/// Returns the variables of all ranks: hvdrun's own environment without those that describe a rank, a store or a key of
/// an outer job, then the settings given as flags, then the job's name. Each agent adds the store's address, which
/// differs by host. Adds MASTER_ADDR (`master`, the host of rank 0) and MASTER_PORT for scripts of torch.distributed,
/// unless `own` has them. Pure.
std::vector<std::string> job_environment(const Variables& own, const Variables& knobs, const std::string& job,
                                         const std::string& master);

/// Returns the variables of one rank: its rank and size in the job, on its host and across hosts, under our names,
/// Horovod's and torch.distributed's. They replace those of hvdrun's own environment, which have one value for all.
/// Pure.
std::vector<std::string> rank_environment(const Placement& placement);

/// The same for a worker of an elastic job, with its number; the position is that of its start. Pure.
std::vector<std::string> worker_environment(int64_t worker, const Placement& placement);

}  // namespace rueda::core::launcher
