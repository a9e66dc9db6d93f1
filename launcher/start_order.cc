// Builds the messages that turn a plan into processes: the command that leads to an agent, and the order that the agent
// gets.

#include "launcher/start_order.h"

#include <unistd.h>

#include "launcher/allocation.h"
#include "launcher/environment.h"
#include "launcher/ssh.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

namespace {

/// The name by which all ranks reach rank 0's machine. If that is this machine, its name in -H may be localhost, which
/// means another machine on other hosts, so they get its host name.
std::string master_of(const JobPlan& plan) {
  if (plan.hosts.empty()) return "127.0.0.1";  // the hosts of an elastic job that are not known yet
  const HostShare& first = plan.hosts.front();
  if (!is_this_host(first.host.name)) return first.host.name;
  char name[256] = "127.0.0.1";
  if (plan.hosts.size() > 1) static_cast<void>(::gethostname(name, sizeof name - 1));
  return name;
}

}  // namespace

JobHosts::Command agent_command(const Arguments& arguments, const JobPlan& plan) {
  return [&ssh = arguments.ssh, launcher = plan.launcher](const HostSlots& host, const std::string& hvdrun) {
    return launcher == Launcher::kSrun ? srun_command(host, hvdrun) : ssh_command(host, ssh, hvdrun);
  };
}

StartOrder start_order(const Arguments& arguments, const JobPlan& plan, const HostLink& host, const JobStore& store) {
  const HostShare& share = host.share();
  StartOrder order;
  order.build = build_id();
  order.program = plan.program;
  order.arguments = arguments.command;
  order.environment = job_environment(process_environment().all(), arguments.variables, store.job(), master_of(plan));
  for (std::string& variable : order.environment) {  // HOSTNAME describes the machine, so each host gets its own
    if (!share.here && variable.starts_with("HOSTNAME=")) variable = "HOSTNAME=" + host.introduction()->host;
  }
  if (!share.here) order.relay_job = store.job();
  order.key = store.key();
  order.grace_ms = std::chrono::milliseconds(arguments.grace).count();
  order.directory = plan.directory;
  order.sharing = share.ranks.empty() ? share.host.slots : static_cast<int>(share.ranks.size());
  for (const auto& placement : share.ranks) order.ranks.push_back({placement.rank, rank_environment(placement)});
  return order;
}

}  // namespace rueda::core::launcher
