#pragma once
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// Runs a job to its end: agents, store, ranks, output, signals, the first failure. Nothing that it started is left on
/// any host when it returns hvdrun's exit code, nor, after a while, on one that it lost. Blocks; called once per
/// process, on its main thread. Throws what the libraries throw where a resource is used up
/// (descriptors); then too nothing is left here.
int run_job(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
