#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

using Variables = std::map<std::string, std::string>;

/// What all ranks get: hvdrun's own environment without what describes a rank, a store or a key of an outer job, the
/// knobs given as flags, and the job's name. The store's address is not the same for all hosts: their agents add it.
/// Scripts of torch.distributed find MASTER_ADDR, which is `master`, the host of rank 0, and MASTER_PORT, unless `own`
/// has them.
std::vector<std::string> job_environment(const Variables& own, const Variables& knobs, const std::string& job,
                                         const std::string& master);

/// What one rank gets besides: who it is, in our names, in Horovod's and in torch.distributed's. Those of hvdrun's own
/// environment cannot be meant: they are one value for all ranks.
std::vector<std::string> rank_environment(const Placement& placement);

}  // namespace rueda::core::launcher
