#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "launcher/arguments.h"
#include "launcher/build.h"
#include "launcher/check_build.h"
#include "launcher/guard.h"
#include "launcher/job.h"
#include "launcher/program.h"
#include "runtime/base/build_id.h"

namespace {

using namespace rueda::core;
using namespace rueda::core::launcher;

constexpr int kUsageError = 2;

int refuse(const std::string& sentence, int exit_code = kUsageError) {
  fmt::print(stderr, "hvdrun: {}\n", sentence);
  return exit_code;
}

Result<std::vector<HostSlots>> read_hosts(const Arguments& arguments) {
  if (!arguments.hosts.empty() && !arguments.hostfile.empty()) {
    return Status(Code::kInvalidArgument, "give -H or --hostfile, not both");
  }
  if (!arguments.hosts.empty()) return parse_hosts(arguments.hosts);
  if (arguments.hostfile.empty()) return std::vector<HostSlots>{{"localhost", arguments.processes}};
  std::ifstream file(arguments.hostfile);
  if (!file) return Status(Code::kInvalidArgument, fmt::format("hostfile {} cannot be read", arguments.hostfile));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto hosts = parse_hostfile(text);
  if (hosts.ok()) return hosts;
  return Status(Code::kInvalidArgument, fmt::format("hostfile {}: {}", arguments.hostfile, hosts.status().sentence()));
}

Result<std::vector<Placement>> place_ranks(const Arguments& arguments) {
  if (arguments.processes == 0 && arguments.hosts.empty() && arguments.hostfile.empty()) {
    return Status(Code::kInvalidArgument, "say how many ranks: hvdrun -np 2 program");
  }
  auto hosts = read_hosts(arguments);
  if (!hosts.ok()) return hosts.status();
  int slots = 0;
  for (const auto& host : hosts.value()) {
    slots += host.slots;
    if (is_this_host(host.name)) continue;
    return Status(
        Code::kUnsupported,
        fmt::format("host \"{}\" is not this one: several hosts are not supported by this build yet", host.name));
  }
  return place(arguments.processes > 0 ? arguments.processes : slots, hosts.value());
}

int run(const Arguments& arguments) {
  if (arguments.command.empty()) return refuse("no program to run; hvdrun --help says how");
  JobPlan plan;
  auto placements = place_ranks(arguments);
  if (!placements.ok()) return refuse(placements.status().sentence());
  plan.placements = std::move(placements).value();
  const char* path = std::getenv("PATH");
  const ProgramFile file = find_program(arguments.command.front(), path == nullptr ? "/usr/bin:/bin" : path);
  if (file.exit_code != 0) return refuse(file.sentence, file.exit_code);
  plan.program = file.path;
  return run_job(arguments, plan);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse_arguments(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  if (!arguments.ok()) return refuse(arguments.status().sentence());
  switch (arguments.value().action) {
    case Action::kHelp:
    case Action::kCompletion: fmt::print("{}", arguments.value().text); return 0;
    case Action::kVersion: fmt::print("hvdrun {} (build {})\n", version(), build_id()); return 0;
    case Action::kCheckBuild: fmt::print("{}", check_build()); return 0;
    case Action::kAgent: return run_guard();
    case Action::kRun: return run(arguments.value());
  }
  return kUsageError;
}
