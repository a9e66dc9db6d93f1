#pragma once
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// Runs a job to its end: agents, store, ranks, output, signals, the first failure. When it returns hvdrun's exit code,
/// no process that it started is left on any host that it still reaches; a host that it lost ends its own ranks after a
/// while. Blocks. Call it once per process, on its main thread. Throws what the libraries throw if a resource such as
/// descriptors is used up; no process is left on this host then.
int run_job(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
