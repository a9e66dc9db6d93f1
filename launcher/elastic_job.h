#pragma once
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// Runs an elastic job to its end, as `run_job` does others: a worker may die, and the rest goes on in the next plan.
/// `plan.elastic` is set. Output is prefixed with a worker's number, which is its rank at the start. Blocks. Call it
/// once per process, on its main thread.
int run_elastic_job(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
