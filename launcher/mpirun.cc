// `hvdrun --mpi`: translates the flags into those of Open MPI's mpirun and becomes it (execve). Nothing of hvdrun runs
// then, neither agents nor a judge, because mpirun already starts, watches and ends ranks. A flag that mpirun cannot
// carry out is refused and not dropped. Other MPIs have other words, so their mpirun is refused too.

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

// Returns whether other hosts need the variable. mpirun passes on only what `-x` names.
bool is_told(const std::string& name) {
  for (const char* other : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS"}) {
    if (name == other) return true;
  }
  return name.starts_with("RUEDA_") || name.starts_with("HOROVOD_");
}

/// A shell script that sets OMP_NUM_THREADS to the host's cores divided by its ranks, as hvdrun's own agents do, and
/// then runs its arguments. Only the host itself knows its cores, so each rank starts with this script.
constexpr const char* kShareCores =
    "threads=$(($(nproc) / OMPI_COMM_WORLD_LOCAL_SIZE)); export OMP_NUM_THREADS=$((threads > 0 ? threads : 1)); "
    "exec \"$@\"";

/// Splits `text` at blanks.
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

// Refuses what mpirun has no equivalent for, and text that it would split in two.
Status check_flags(const Arguments& arguments, const JobPlan& plan) {
  if (arguments.launcher != Launcher::kAuto) {
    return {Code::kInvalidArgument,
            "--launcher has no meaning with --mpi, because mpirun starts the ranks; leave one of them out"};
  }
  const auto refuse = [](const std::string& sentence) { return Status(Code::kInvalidArgument, sentence); };
  for (const HostShare& share : plan.hosts) {
    const HostSlots& host = share.host;
    if (!host.user.empty())
      return refuse(
          fmt::format("-H {}@{}: mpirun takes no user names; put the user into ssh's configuration (Host, User)",
                      host.user, host.name));
    if (host.name.find(':') != std::string::npos)
      return refuse(fmt::format("-H [{}]: mpirun takes no IPv6 addresses; give the host's name", host.name));
  }
  if (const auto& key = arguments.ssh.identity_file; key.find_first_of(" \t") != std::string::npos)
    return refuse(
        fmt::format("-i \"{}\": mpirun splits ssh's arguments at blanks; put the key into ssh's configuration "
                    "(IdentityFile)",
                    key));
  if (const auto& folder = arguments.output_directory; folder.find(':') != std::string::npos)
    return refuse(
        fmt::format("--output-filename {}: mpirun splits the name at the colon; give a name without one", folder));
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

/// Returns what `mpirun --version` prints. The path comes from PATH, so it is quoted for the shell.
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

// Does not return if it succeeds.
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
  for (const char* position : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"}) {
    variables.erase(fmt::format("RUEDA_{}", position));
    variables.erase(fmt::format("HOROVOD_{}", position));
  }
  for (const char* name :
       {"RUEDA_HOSTNAME", "HOROVOD_HOSTNAME", "RUEDA_STORE_ADDR", "RUEDA_STORE", "RUEDA_JOB", "RUEDA_JOB_KEY_FD"})
    variables.erase(name);
  for (const auto& [name, value] : knobs) variables[name] = value;
  for (const std::string knob : {"CONTROLLER", "CPU_OPERATIONS"}) {
    if (variables.count("HOROVOD_" + knob) == 0) variables.emplace("RUEDA_" + knob, "mpi");
  }
  variables.emplace("PYTHONUNBUFFERED", "1");  // Python holds lines back if stdout is a pipe
  return variables;
}

Result<std::vector<std::string>> mpirun_command(const Arguments& arguments, const JobPlan& plan,
                                                const std::string& mpirun, const Variables& environment) {
  RUEDA_RETURN_IF_ERROR(check_flags(arguments, plan));
  std::vector<std::string> words = {mpirun, "-np", std::to_string(plan.placements.size()), "-H", host_list(plan)};
  append_words(arguments.binding_args.empty() ? "--bind-to none --map-by slot" : arguments.binding_args, words);
  if (const std::string ssh = ssh_arguments(arguments.ssh); !ssh.empty())
    words.insert(words.end(), {"--mca", "plm_rsh_args", ssh});
  // ob1 is Open MPI's own point-to-point layer; the others would pick InfiniBand or such by themselves.
  if (arguments.tcp) words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"});
  words.emplace_back("--tag-output");
  if (arguments.timestamps) words.emplace_back("--timestamp-output");
  if (!arguments.output_directory.empty())  // nojobid: else mpirun adds a folder with its number of the job
    words.insert(words.end(), {"--output-filename", arguments.output_directory + ":nojobid"});
  for (const auto& [name, value] : environment) {
    if (is_told(name)) words.insert(words.end(), {"-x", name});
  }
  append_words(arguments.mpi_args, words);
  if (environment.count("OMP_NUM_THREADS") == 0) words.insert(words.end(), {"sh", "-c", kShareCores, "sh"});
  words.push_back(plan.program);  // the path that hvdrun found, so that all hosts run the same file
  words.insert(words.end(), arguments.command.begin() + 1, arguments.command.end());
  return words;
}

std::string unlike_open_mpi(std::string_view version) {
  if (version.find("Open MPI") != std::string_view::npos || version.find("OpenRTE") != std::string_view::npos)
    return {};
  const std::string_view first = version.substr(0, version.find('\n'));
  return fmt::format(
      "it is not Open MPI (it says \"{}\"); start the ranks with it directly, see docs/guide/under-mpirun.md", first);
}

int run_mpirun(const Arguments& arguments, const JobPlan& plan) {
  const char* path = std::getenv("PATH");
  const ProgramFile mpirun = find_program("mpirun", path == nullptr ? "/usr/bin:/bin" : path);
  if (mpirun.exit_code != 0) return give_up("--mpi: " + mpirun.sentence, mpirun.exit_code);
  if (const std::string other = unlike_open_mpi(version_of(mpirun.path)); !other.empty())
    return give_up(fmt::format("--mpi: {} cannot be used: {}", mpirun.path, other), kUsageExit);
  Variables environment = mpi_environment(own_environment(), arguments.variables);
  // mpirun refuses root without both. Containers run as root, and hvdrun itself does not refuse it.
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
