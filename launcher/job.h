#pragma once
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// All that was checked before anything starts.
struct JobPlan {
  std::vector<Placement> placements;
  std::string program;  ///< the file
};

/// Runs a job to its end: store, agent, ranks, output, signals, the first failure. Nothing that it started is left when
/// it returns hvdrun's exit code. Blocks; called once per process, on its main thread.
int run_job(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
