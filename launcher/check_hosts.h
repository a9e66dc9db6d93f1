#pragma once
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// What works on each host of `plan`, as its own agent finds it: printed to stdout, host by host; hosts that cannot be
/// used to stderr, each with the reason. Every host is reached as a job would reach it. Returns hvdrun's exit code: 0
/// where all answered in time (arguments.start_timeout), else 1. Blocks; called once per process, on its main thread.
int check_hosts(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
