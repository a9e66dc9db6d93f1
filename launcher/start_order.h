#pragma once
#include "launcher/arguments.h"
#include "launcher/job_hosts.h"
#include "launcher/job_plan.h"
#include "launcher/job_store.h"
#include "launcher/messages.h"

namespace rueda::core::launcher {

/// Returns the function that makes the command for another host, with ssh or srun. It borrows `arguments`.
JobHosts::Command agent_command(const Arguments& arguments, const JobPlan& plan);

/// Returns the name by which ranks on these hosts, each named once, reach the first of them. If that is this machine,
/// its name may be localhost, which means another machine on other hosts, so they get its host name.
std::string master_of(const std::vector<std::string>& hosts);

/// Returns what the agent of `host` starts. The caller adds the addresses of the store, which differ by host.
StartOrder start_order(const Arguments& arguments, const JobPlan& plan, const HostLink& host, const JobStore& store);

}  // namespace rueda::core::launcher
