// The entry of hvdrun: reads the command line, then does the one thing that it asks for. Closed standard streams are
// opened first, before any descriptor exists that could take their numbers, and stdout is flushed last, because a full
// disk shows only there. In between every failure becomes one sentence on stderr and an exit code.

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>

#include "launcher/arguments.h"
#include "launcher/build.h"
#include "launcher/check_build.h"
#include "launcher/check_hosts.h"
#include "launcher/dump_desk.h"
#include "launcher/elastic_job.h"
#include "launcher/guard.h"
#include "launcher/job.h"
#include "launcher/job_plan.h"
#include "launcher/mpirun.h"
#include "launcher/notice_desk.h"
#include "launcher/standard_streams.h"
#include "runtime/base/build_id.h"
#include "runtime/base/output_file.h"
#include "runtime/base/printable.h"

namespace {

using namespace rueda::core;
using namespace rueda::core::launcher;

constexpr int kUsageError = 2;
constexpr int kFailure = 1;

// std::fputs, because fmt::print throws if stderr cannot be written.
void tell(const std::string& sentence) { std::fputs(fmt::format("hvdrun: {}\n", sentence).c_str(), stderr); }

int refuse(const std::string& sentence, int exit_code = kUsageError) {
  tell(sentence);
  return exit_code;
}

int dump(const Arguments& arguments) {
  const Result<std::string> merged = fetch_dump(arguments.asked);
  if (!merged.ok()) return refuse(merged.status().sentence(), kFailure);
  const auto json = nlohmann::ordered_json::parse(merged.value());
  for (const auto& line : json.at("verdict")) fmt::print("{}\n", printable(line.get<std::string>()));
  const auto file = arguments.variables.find("RUEDA_DUMP_FILE");
  if (file == arguments.variables.end()) return 0;
  const auto out = open_output("the flight record", file->second);
  if (!out.ok()) return refuse(out.status().sentence(), kFailure);
  if (write_all(out.value().get(), merged.value() + "\n")) return 0;
  return refuse(fmt::format("the flight record cannot be written to {}: {}", file->second, std::strerror(errno)),
                kFailure);
}

int print_answer(const Result<std::string>& answer) {
  if (!answer.ok()) return refuse(answer.status().sentence(), kFailure);
  fmt::print("{}\n", printable(answer.value()));
  return 0;
}

int check_here() {
  fmt::print("{}", check_build());
  return 0;
}

int check(const Arguments& arguments) {
  const PlannedJob planned = plan_check(arguments);
  if (planned.exit_code != 0) return refuse(planned.sentence, planned.exit_code);
  return planned.plan.hosts.empty() ? check_here() : check_hosts(arguments, planned.plan);
}

int run(const Arguments& arguments) {
  if (arguments.command.empty()) return refuse("no program to run; hvdrun --help says how");
  const PlannedJob planned = plan_job(arguments);
  for (const std::string& note : planned.notes) tell(note);
  if (planned.exit_code != 0) return refuse(planned.sentence, planned.exit_code);
  if (planned.plan.elastic) return run_elastic_job(arguments, planned.plan);
  return arguments.mpi ? run_mpirun(arguments, planned.plan) : run_job(arguments, planned.plan);
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
    case Action::kSignalRemoval: return print_answer(signal_removal(arguments.asked, arguments.removed_host));
    case Action::kSignalHosts: return print_answer(signal_hosts(arguments.asked));
    case Action::kRun: return run(arguments);
  }
  return kUsageError;
}

// A library's exception nearly always means that a resource is used up; descriptors are the commonest, so their limit
// is shown.
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
