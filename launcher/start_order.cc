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

std::string master_of(const std::vector<std::string>& hosts) {
  if (!is_this_host(hosts.front())) return hosts.front();
  char name[256] = "127.0.0.1";
  if (hosts.size() > 1) static_cast<void>(::gethostname(name, sizeof name - 1));
  return name;
}

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
  std::vector<std::string> hosts;
  for (const HostShare& each : plan.hosts) hosts.push_back(each.host.name);
  // Rank 0 of an elastic job changes, so its workers get their own.
  const std::string master = plan.elastic ? "" : master_of(hosts);
  order.environment = job_environment(process_environment().all(), arguments.variables, store.job(), master);
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
