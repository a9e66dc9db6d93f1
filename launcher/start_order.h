#pragma once
#include "launcher/arguments.h"
#include "launcher/job_hosts.h"
#include "launcher/job_plan.h"
#include "launcher/job_store.h"
#include "launcher/messages.h"

namespace rueda::core::launcher {

/// What leads to the agent of another host: ssh or srun. Borrows `arguments`.
JobHosts::Command agent_command(const Arguments& arguments, const JobPlan& plan);

/// What the agent of this host is to start; without the ways to the store.
StartOrder start_order(const Arguments& arguments, const JobPlan& plan, const HostLink& host, const JobStore& store);

}  // namespace rueda::core::launcher
