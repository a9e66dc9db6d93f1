// Turns a command line into a plan, or into the sentence that refuses it. All checks that need no other host come here,
// before any process exists, so that a refusal leaves nothing behind. They run from the cheapest and most likely
// mistake to the last: key file, hosts and slots, settings, working folder, program.

#include "launcher/job_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "launcher/allocation.h"
#include "launcher/dialect.h"
#include "launcher/elastic_plan.h"
#include "launcher/program.h"
#include "launcher/text_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/settings.h"

namespace rueda::core::launcher {
namespace {

constexpr int kWrongUsage = 2;
constexpr int kSystemFailed = 1;

Result<std::vector<HostSlots>> read_hostfile(const std::string& path) {
  const auto text = read_text_file("hostfile", path);
  if (!text.ok()) return text.status();
  auto hosts = parse_hostfile(text.value());
  if (hosts.ok()) return hosts;
  return Status(Code::kInvalidArgument, fmt::format("hostfile {}: {}", path, hosts.status().sentence()));
}

/// The hosts of the flags, else of the batch system. Empty if neither names any. Also chooses what reaches them: srun
/// only for an allocation that the user did not override with own hosts, because srun reaches no others.
Result<std::vector<HostSlots>> named_hosts(const Arguments& arguments, JobPlan& plan) {
  const bool listed = !arguments.hosts.empty(), in_file = !arguments.hostfile.empty();
  if (listed && in_file) return Status(Code::kInvalidArgument, "give -H or --hostfile, not both");
  plan.launcher = arguments.launcher == Launcher::kSrun ? Launcher::kSrun : Launcher::kSsh;
  if (listed) return parse_hosts(arguments.hosts);
  if (in_file) return read_hostfile(arguments.hostfile);
  auto allocation = read_allocation(process_environment());
  if (!allocation.ok()) return allocation.status();
  if (auto& found = allocation.value()) {
    if (arguments.launcher == Launcher::kAuto && found->system == "Slurm") plan.launcher = Launcher::kSrun;
    return std::move(found->hosts);
  }
  return std::vector<HostSlots>{};
}

/// The named hosts, else this machine.
Result<std::vector<HostSlots>> hosts_for_run(const Arguments& arguments, JobPlan& plan) {
  auto named = named_hosts(arguments, plan);
  if (!named.ok() || !named.value().empty()) return named;
  if (arguments.processes == 0) return Status(Code::kInvalidArgument, "say how many ranks: hvdrun -np 2 program");
  return std::vector<HostSlots>{{"localhost", arguments.processes}};
}

/// Assigns `processes` ranks to slots; 0 means a rank for each slot.
Status place_ranks(int processes, const Result<std::vector<HostSlots>>& hosts, JobPlan& plan) {
  if (!hosts.ok()) return hosts.status();
  int slots = 0;
  for (const auto& host : hosts.value()) slots += host.slots;
  auto placements = place(processes > 0 ? processes : slots, hosts.value());
  if (!placements.ok()) return placements.status();
  plan.placements = std::move(placements).value();
  plan.hosts = share_out(hosts.value(), plan.placements);
  return {};
}

/// Names every slot of the hosts: a worker may come into each.
Status plan_elastic(const Arguments& arguments, JobPlan& plan) {
  const bool listed = arguments.elastic.script.empty();
  const auto hosts = listed && arguments.processes > 0 ? hosts_for_run(arguments, plan) : std::vector<HostSlots>();
  if (!hosts.ok()) return hosts.status();
  auto rules = plan_membership(arguments, hosts.value(), process_environment());
  if (!rules.ok()) return rules.status();
  plan.elastic = std::move(rules).value();
  return listed ? place_ranks(0, hosts, plan) : Status();
}

Status plan_placements(const Arguments& arguments, JobPlan& plan) {
  if (arguments.elastic.elastic()) return plan_elastic(arguments, plan);
  if (arguments.elastic.slots_per_host) {
    return {Code::kInvalidArgument,
            "--slots-per-host: give the slots with the hosts, as in -H node1:4,node2:4; the flag is for "
            "--host-discovery-script"};
  }
  return place_ranks(arguments.processes, hosts_for_run(arguments, plan), plan);
}

/// get_current_dir_name prefers $PWD, the name with symbolic links that the user knows and that other hosts may share.
Status read_directory(JobPlan& plan) {
  const std::unique_ptr<char, decltype(&std::free)> name(get_current_dir_name(), std::free);
  if (name == nullptr) {
    return {Code::kSystem,
            fmt::format("cannot find out the working folder, in which the ranks should run: {}", std::strerror(errno))};
  }
  plan.directory = name.get();
  return {};
}

/// Reads the two settings that hvdrun itself obeys. All others are left unread, because the ranks read them and
/// complain about them with their own rank and host.
Status read_own_settings(const Arguments& arguments, JobPlan& plan) {
  const Environment environment = process_environment();
  std::map<std::string, std::string> variables;
  for (const std::string name : {"RUEDA_NETWORK_INTERFACES", "RUEDA_PEER_TIMEOUT_SECONDS"}) {
    const auto flag = arguments.variables.find(name);
    if (const auto given = environment(name)) variables[name] = *given;
    if (flag != arguments.variables.end()) variables[name] = flag->second;
  }
  const auto settings = read_settings(Environment(std::move(variables)));
  if (!settings.ok()) return settings.status();
  plan.interfaces = settings.value().network_interfaces;
  plan.silence = std::chrono::ceil<std::chrono::milliseconds>(settings.value().peer_timeout);
  return {};
}

/// Users of Horovod may have these flags in their scripts, because its hvdrun chooses MPI by itself. So they are noted
/// and not refused.
std::vector<std::string> flags_without_effect(const Arguments& arguments, const JobPlan& plan) {
  std::vector<std::string> notes;
  if (!arguments.without_meaning.empty()) notes.push_back(without_meaning(arguments.without_meaning));
  if (std::string note = misplaced_elastic_flags(arguments.elastic); !note.empty()) notes.push_back(std::move(note));
  const bool for_mpi = !arguments.mpi_args.empty() || !arguments.binding_args.empty() || arguments.tcp;
  if (for_mpi && !arguments.mpi)
    notes.emplace_back("--mpi-args, --binding-args and --tcp have no effect without --mpi");
  const bool user =
      std::any_of(plan.hosts.begin(), plan.hosts.end(), [](const auto& one) { return !one.host.user.empty(); });
  if (plan.launcher == Launcher::kSrun && (user || arguments.ssh.port != 0 || !arguments.ssh.identity_file.empty())) {
    notes.emplace_back(
        "user names before hosts, -p and -i have no effect because srun starts the agents; --launcher ssh obeys them");
  }
  return notes;
}

/// A key file with `~`, `%` or `$` in its name is for ssh to expand, so only others are checked here.
Status check_identity_file(const std::string& key) {
  const bool ssh_expands_it = key.find_first_of("~%$") != std::string::npos;
  if (key.empty() || ssh_expands_it || access(key.c_str(), R_OK) == 0) return {};
  return {Code::kInvalidArgument, fmt::format("--ssh-identity-file {}: {}", key, std::strerror(errno))};
}

PlannedJob refused(PlannedJob job, std::string sentence, int exit_code = kWrongUsage) {
  job.sentence = std::move(sentence);
  job.exit_code = exit_code;
  return job;
}

}  // namespace

PlannedJob plan_job(const Arguments& arguments) {
  PlannedJob job;
  JobPlan& plan = job.plan;
  if (const Status key = check_identity_file(arguments.ssh.identity_file); !key.ok())
    return refused(job, key.sentence());
  Status ready = plan_placements(arguments, plan);
  if (ready.ok()) ready = read_own_settings(arguments, plan);
  job.notes = flags_without_effect(arguments, plan);
  if (!ready.ok()) return refused(job, ready.sentence());
  if (ready = read_directory(plan); !ready.ok()) return refused(job, ready.sentence(), kSystemFailed);
  // Only a host that runs ranks must have the program. If this machine runs none, each agent looks in its own PATH.
  const char* path = std::getenv("PATH");
  const ProgramFile file = find_program(arguments.command.front(), path == nullptr ? "/usr/bin:/bin" : path);
  const bool runs_here = std::any_of(plan.hosts.begin(), plan.hosts.end(), [](const auto& one) { return one.here; });
  if (file.exit_code != 0 && runs_here) return refused(job, file.sentence, file.exit_code);
  plan.program = file.exit_code == 0 ? file.path : arguments.command.front();
  return job;
}

PlannedJob plan_check(const Arguments& arguments) {
  PlannedJob job;
  const auto hosts = named_hosts(arguments, job.plan);
  if (hosts.ok() && hosts.value().empty()) return job;
  const Status placed = place_ranks(0, hosts, job.plan);
  return placed.ok() ? job : refused(job, placed.sentence());
}

}  // namespace rueda::core::launcher
