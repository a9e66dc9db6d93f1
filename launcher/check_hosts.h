#pragma once
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// Runs `--check-build` on each host of `plan`, reached as a job would reach it. Prints the answers to stdout, host by
/// host, and to stderr each host that cannot be used with the reason. Returns hvdrun's exit code: 0 if all answered in
/// time (arguments.start_timeout), else 1. Blocks. Call it once per process, on its main thread.
int check_hosts(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
