#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "launcher/agent_process.h"
#include "launcher/arguments.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// Prepares and runs the conductor of a job, on this thread, and returns hvdrun's exit code. If the conductor cannot
/// start its agents, or throws, its links are closed first and all agents are awaited, so that no process is left.
template <typename Conductor>
int run_conductor(const Arguments& arguments, const JobPlan& plan) try {
  auto job = std::make_unique<Conductor>(arguments, plan);
  const Status ready = job->prepare();
  if (ready.ok()) return job->run();
  job.reset();
  await_agent_processes();
  std::fputs(fmt::format("hvdrun: {}\n", ready.sentence()).c_str(), stderr);
  return 1;
} catch (...) {
  await_agent_processes();
  throw;
}

}  // namespace rueda::core::launcher
