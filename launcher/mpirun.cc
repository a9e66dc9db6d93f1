#include "launcher/mpirun.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "launcher/program.h"

namespace rueda::core::launcher {
namespace {

constexpr int kUsageExit = 2;
constexpr int kCannotRunExit = 126;

bool is_told(const std::string& name) {
  for (const char* other : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS"}) {
    if (name == other) return true;
  }
  return name.starts_with("RUEDA_") || name.starts_with("HOROVOD_");
}

/// Runs what stands behind it with as many threads as each rank of a host has cores, as hvdrun's own agents do it. Only
/// the host itself knows, so it is a shell's to say there.
constexpr const char* kShareCores =
    "threads=$(($(nproc) / OMPI_COMM_WORLD_LOCAL_SIZE)); export OMP_NUM_THREADS=$((threads > 0 ? threads : 1)); "
    "exec \"$@\"";

/// Words with blanks between them.
void append_words(const std::string& text, std::vector<std::string>& words) {
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
}

std::string host_list(const JobPlan& plan) {
  std::string list;
  for (const HostShare& share : plan.hosts) {
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", share.host.name, share.ranks.size());
  }
  return list;
}

Status check_flags(const Arguments& arguments, const JobPlan& plan) {
  if (arguments.launcher != Launcher::kAuto) {
    return {Code::kInvalidArgument,
            "--launcher is about hvdrun's own agents; with --mpi it is mpirun that starts ranks"};
  }
  const auto refuse = [](const std::string& sentence) { return Status(Code::kInvalidArgument, sentence); };
  for (const HostShare& share : plan.hosts) {
    const HostSlots& host = share.host;
    if (!host.user.empty())
      return refuse(fmt::format("-H {}@{}: mpirun takes no user names; put it into ssh's configuration (Host, User)",
                                host.user, host.name));
    if (host.name.find(':') != std::string::npos)
      return refuse(fmt::format("-H [{}]: mpirun takes no IPv6 addresses; give the host's name", host.name));
  }
  if (const auto& key = arguments.ssh.identity_file; key.find_first_of(" \t") != std::string::npos)
    return refuse(
        fmt::format("-i \"{}\": mpirun cuts ssh's words at blanks; put it into ssh's configuration "
                    "(IdentityFile)",
                    key));
  if (const auto& folder = arguments.output_directory; folder.find(':') != std::string::npos)
    return refuse(fmt::format("--output-filename {}: mpirun cuts the name at the colon; give one without", folder));
  return {};
}

std::string ssh_arguments(const SshOptions& options) {
  std::string text;
  if (options.port != 0) text += fmt::format("-p {}", options.port);
  if (!options.identity_file.empty()) text += fmt::format("{}-i {}", text.empty() ? "" : " ", options.identity_file);
  return text;
}

Variables own_environment() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

/// What `mpirun --version` prints. The path comes from PATH, and a shell gets it quoted.
std::string version_of(const std::string& mpirun) {
  const std::string line = shell_word(mpirun) + " --version 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "re"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (pipe != nullptr) {
    const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (got == 0) break;
    text.append(buffer.data(), got);
  }
  return text;
}

int give_up(const std::string& sentence, int exit_code) {
  std::fputs(fmt::format("hvdrun: {}\n", sentence).c_str(), stderr);
  return exit_code;
}

int become(const std::string& program, const std::vector<std::string>& words, const Variables& environment) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> argv, envp;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : entries) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  ::execve(program.c_str(), argv.data(), envp.data());
  return give_up(fmt::format("cannot run \"{}\": {}", program, std::strerror(errno)), kCannotRunExit);
}

}  // namespace

Variables mpi_environment(const Variables& own, const Variables& knobs) {
  Variables variables = own;
  for (const char* place : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"}) {
    variables.erase(fmt::format("RUEDA_{}", place));
    variables.erase(fmt::format("HOROVOD_{}", place));
  }
  for (const char* name : {"RUEDA_HOSTNAME", "RUEDA_STORE_ADDR", "RUEDA_STORE", "RUEDA_JOB", "RUEDA_JOB_KEY_FD"})
    variables.erase(name);
  for (const auto& [name, value] : knobs) variables[name] = value;
  for (const std::string knob : {"CONTROLLER", "CPU_OPERATIONS"}) {
    if (variables.count("HOROVOD_" + knob) == 0) variables.emplace("RUEDA_" + knob, "mpi");
  }
  variables.emplace("PYTHONUNBUFFERED", "1");  // into a pipe Python would hold its lines back
  return variables;
}

Result<std::vector<std::string>> mpirun_command(const Arguments& arguments, const JobPlan& plan,
                                                const std::string& mpirun, const Variables& environment) {
  RUEDA_RETURN_IF_ERROR(check_flags(arguments, plan));
  std::vector<std::string> words = {mpirun, "-np", std::to_string(plan.placements.size()), "-H", host_list(plan)};
  append_words(arguments.binding_args.empty() ? "--bind-to none --map-by slot" : arguments.binding_args, words);
  if (const std::string ssh = ssh_arguments(arguments.ssh); !ssh.empty())
    words.insert(words.end(), {"--mca", "plm_rsh_args", ssh});
  if (arguments.tcp) words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"});
  words.emplace_back("--tag-output");
  if (arguments.timestamps) words.emplace_back("--timestamp-output");
  if (!arguments.output_directory.empty())  // else its own number of the job would stand between
    words.insert(words.end(), {"--output-filename", arguments.output_directory + ":nojobid"});
  for (const auto& [name, value] : environment) {
    if (is_told(name)) words.insert(words.end(), {"-x", name});
  }
  append_words(arguments.mpi_args, words);
  if (environment.count("OMP_NUM_THREADS") == 0) words.insert(words.end(), {"sh", "-c", kShareCores, "sh"});
  words.push_back(plan.program);
  words.insert(words.end(), arguments.command.begin() + 1, arguments.command.end());
  return words;
}

std::string unlike_open_mpi(std::string_view version) {
  if (version.find("Open MPI") != std::string_view::npos || version.find("OpenRTE") != std::string_view::npos)
    return {};
  const std::string_view first = version.substr(0, version.find('\n'));
  return fmt::format(
      "it is not Open MPI's (it says \"{}\"); start the ranks with it directly: docs/guide/under-mpirun.md", first);
}

int run_mpirun(const Arguments& arguments, const JobPlan& plan) {
  const char* path = std::getenv("PATH");
  const ProgramFile mpirun = find_program("mpirun", path == nullptr ? "/usr/bin:/bin" : path);
  if (mpirun.exit_code != 0) return give_up("--mpi: " + mpirun.sentence, mpirun.exit_code);
  if (const std::string other = unlike_open_mpi(version_of(mpirun.path)); !other.empty())
    return give_up(fmt::format("--mpi: {} cannot be used: {}", mpirun.path, other), kUsageExit);
  Variables environment = mpi_environment(own_environment(), arguments.variables);
  if (::geteuid() == 0) {
    environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  const auto words = mpirun_command(arguments, plan, mpirun.path, environment);
  if (!words.ok()) return give_up(words.status().sentence(), kUsageExit);
  if (arguments.verbose) {
    std::string line;
    for (const std::string& word : words.value()) line += (line.empty() ? "" : " ") + word;
    std::fputs(fmt::format("hvdrun: {}\n", line).c_str(), stderr);
  }
  return become(mpirun.path, words.value(), environment);
}

}  // namespace rueda::core::launcher
