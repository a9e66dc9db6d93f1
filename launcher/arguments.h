#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launcher/elastic_arguments.h"
#include "launcher/ssh.h"
#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// What the command line asks for. kCheckHere and kAgent are what one hvdrun asks of another.
enum class Action {
  kRun,
  kHelp,
  kVersion,
  kCheckBuild,
  kCheckHere,
  kCompletion,
  kAgent,
  kDump,
  kSignalRemoval,
  kSignalHosts
};

/// How agents are started on other hosts; kAuto is decided by `plan_job`.
enum class Launcher { kAuto, kSsh, kSrun };

/// The command line and its config file, as a plain value.
struct Arguments {
  Action action = Action::kRun;
  int processes = 0;  ///< 0 if not given
  std::string hosts;
  std::string hostfile;
  Launcher launcher = Launcher::kAuto;
  SshOptions ssh;
  bool mpi = false;              ///< mpirun starts the ranks
  bool tcp = false;              ///< with `mpi`: MPI uses only TCP and shared memory
  std::string mpi_args;          ///< more arguments for mpirun, separated by blanks
  std::string binding_args;      ///< the same, in place of our arguments about binding
  std::string output_directory;  ///< empty if no files are wanted
  bool timestamps = false;
  bool verbose = false;
  std::chrono::seconds grace{5};                    ///< between SIGTERM and SIGKILL
  std::chrono::duration<double> start_timeout{30};  ///< 0 means no limit
  std::map<std::string, std::string> variables;     ///< settings given as flags, as in RUEDA_FUSION_THRESHOLD -> 64MiB
  ElasticArguments elastic;
  std::vector<std::string> command;          ///< the program and its arguments; empty if none is given
  std::vector<std::string> without_meaning;  ///< flags of horovodrun that were given, each with the reason
  std::string text;                          ///< what kHelp and kCompletion print
  int64_t asked = 0;                         ///< for kDump and kSignal...: the pid of the hvdrun that is asked
  std::string removed_host;                  ///< for kSignalRemoval
};

/// Reads the command line without argv[0]. The first word that is no flag is the program; all that follows belongs to
/// it. Returns kInvalidArgument with one sentence that names the word, what is wrong, and for an unknown flag the
/// nearest.
Result<Arguments> parse_arguments(const std::vector<std::string>& words);

}  // namespace rueda::core::launcher
