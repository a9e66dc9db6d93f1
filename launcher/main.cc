#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/allocation.h"
#include "launcher/arguments.h"
#include "launcher/build.h"
#include "launcher/check_build.h"
#include "launcher/check_hosts.h"
#include "launcher/dump_desk.h"
#include "launcher/guard.h"
#include "launcher/job.h"
#include "launcher/mpirun.h"
#include "launcher/program.h"
#include "launcher/standard_streams.h"
#include "launcher/text_file.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"
#include "runtime/base/printable.h"
#include "runtime/base/settings.h"

namespace {

using namespace rueda::core;
using namespace rueda::core::launcher;

constexpr int kUsageError = 2;
constexpr int kFailure = 1;

int refuse(const std::string& sentence, int exit_code = kUsageError) {
  std::fputs(fmt::format("hvdrun: {}\n", sentence).c_str(), stderr);  // which, unlike fmt's own, never throws
  return exit_code;
}

Result<std::vector<HostSlots>> read_hostfile(const std::string& path) {
  const auto text = read_text_file("hostfile", path);
  if (!text.ok()) return text.status();
  auto hosts = parse_hostfile(text.value());
  if (hosts.ok()) return hosts;
  return Status(Code::kInvalidArgument, fmt::format("hostfile {}: {}", path, hosts.status().sentence()));
}

// The hosts of the flags, else of the batch system; none where neither says.
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

// The same, or else this one.
Result<std::vector<HostSlots>> read_hosts(const Arguments& arguments, JobPlan& plan) {
  auto named = named_hosts(arguments, plan);
  if (!named.ok() || !named.value().empty()) return named;
  if (arguments.processes == 0) return Status(Code::kInvalidArgument, "say how many ranks: hvdrun -np 2 program");
  return std::vector<HostSlots>{{"localhost", arguments.processes}};
}

// `processes` ranks; 0: as many as there are slots.
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

// Ours, by the name that the user knows it by.
Status read_directory(JobPlan& plan) {
  const std::unique_ptr<char, decltype(&std::free)> name(get_current_dir_name(), std::free);
  if (name == nullptr) {
    return {Code::kSystem,
            fmt::format("the working folder, in which the ranks are to run, cannot be told: {}", std::strerror(errno))};
  }
  plan.directory = name.get();
  return {};
}

// What of the settings concerns hvdrun itself. The others are for the ranks to read, and to complain about.
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

int dump(const Arguments& arguments) {
  const Result<std::string> merged = fetch_dump(arguments.dumped);
  if (!merged.ok()) return refuse(merged.status().sentence(), 1);
  const auto json = nlohmann::ordered_json::parse(merged.value());
  for (const auto& line : json.at("verdict")) fmt::print("{}\n", printable(line.get<std::string>()));
  const auto file = arguments.variables.find("RUEDA_DUMP_FILE");
  if (file == arguments.variables.end()) return 0;
  std::ofstream out(file->second);
  out << merged.value() << '\n';
  out.close();
  return out ? 0 : refuse(fmt::format("{} cannot be written", file->second), 1);
}

int check_here() {
  fmt::print("{}", check_build());
  return 0;
}

// Of all hosts that are named, or else of this machine.
int check(const Arguments& arguments) {
  JobPlan plan;
  const auto hosts = named_hosts(arguments, plan);
  if (hosts.ok() && hosts.value().empty()) return check_here();
  const Status placed = place_ranks(0, hosts, plan);
  return placed.ok() ? check_hosts(arguments, plan) : refuse(placed.sentence());
}

// Flags that nothing comes of. Users of Horovod may have them in their scripts, whose hvdrun chooses MPI by itself.
void tell_unused(const Arguments& arguments, const JobPlan& plan) {
  const bool for_mpi = !arguments.mpi_args.empty() || !arguments.binding_args.empty() || arguments.tcp;
  if (for_mpi && !arguments.mpi)
    std::fputs("hvdrun: --mpi-args, --binding-args and --tcp have no effect without --mpi\n", stderr);
  const bool user =
      std::any_of(plan.hosts.begin(), plan.hosts.end(), [](const auto& one) { return !one.host.user.empty(); });
  if (plan.launcher == Launcher::kSrun && (user || arguments.ssh.port != 0 || !arguments.ssh.identity_file.empty())) {
    std::fputs(
        "hvdrun: srun starts the agents, for which users before host names, -p and -i have no effect; with "
        "--launcher ssh they have\n",
        stderr);
  }
}

int run(const Arguments& arguments) {
  if (arguments.command.empty()) return refuse("no program to run; hvdrun --help says how");
  const std::string& key = arguments.ssh.identity_file;
  const bool for_ssh_to_fill_in = key.find_first_of("~%$") != std::string::npos;
  if (!key.empty() && !for_ssh_to_fill_in && access(key.c_str(), R_OK) != 0) {
    return refuse(fmt::format("--ssh-identity-file {}: {}", key, std::strerror(errno)));
  }
  JobPlan plan;
  Status ready = place_ranks(arguments.processes, read_hosts(arguments, plan), plan);
  if (ready.ok()) ready = read_own_settings(arguments, plan);
  tell_unused(arguments, plan);
  if (!ready.ok()) return refuse(ready.sentence());
  if (ready = read_directory(plan); !ready.ok()) return refuse(ready.sentence(), kFailure);
  const char* path = std::getenv("PATH");
  const ProgramFile file = find_program(arguments.command.front(), path == nullptr ? "/usr/bin:/bin" : path);
  const bool runs_here = std::any_of(plan.hosts.begin(), plan.hosts.end(), [](const auto& one) { return one.here; });
  if (file.exit_code != 0 && runs_here) return refuse(file.sentence, file.exit_code);
  plan.program = file.exit_code == 0 ? file.path : arguments.command.front();
  return arguments.mpi ? run_mpirun(arguments, plan) : run_job(arguments, plan);
}

int act(const Arguments& arguments) {
  switch (arguments.action) {
    case Action::kHelp:
    case Action::kCompletion: fmt::print("{}", arguments.text); return 0;
    case Action::kVersion: fmt::print("hvdrun {} (build {})\n", version(), build_id()); return 0;
    case Action::kCheckBuild: return check(arguments);
    case Action::kCheckHere: return check_here();
    case Action::kAgent: return run_guard();
    case Action::kDump: return dump(arguments);
    case Action::kRun: return run(arguments);
  }
  return kUsageError;
}

// What a library threw: nearly always a resource that is used up, of which the shell sets the commonest limit.
int give_up(const std::exception& error) {
  std::string reason = error.what();
  rlimit files{};
  if (const auto* system = dynamic_cast<const boost::system::system_error*>(&error)) {
    reason = system->code().message();  // `what` goes on with lines of the library's own source
    if (system->code().value() == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0) {
      reason += fmt::format(" (ulimit -n: {})", files.rlim_cur);
    }
  }
  return refuse(fmt::format("cannot go on: {}", reason), kFailure);
}

}  // namespace

int main(int argc, char** argv) {
  if (!open_closed_streams()) return kFailure;
  try {
    const auto arguments = parse_arguments(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (!arguments.ok()) return refuse(arguments.status().sentence());
    const int exit_code = act(arguments.value());
    if (const std::string lost = flush_stdout(); !lost.empty() && exit_code == 0) {
      return refuse(fmt::format("stdout could not be written: {}", lost), kFailure);
    }
    return exit_code;
  } catch (const std::exception& error) {
    return give_up(error);
  }
}
