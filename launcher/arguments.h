#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launcher/ssh.h"
#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// What to do, as the command line says.
enum class Action { kRun, kHelp, kVersion, kCheckBuild, kCheckHere, kCompletion, kAgent, kDump };

/// How agents are started on other hosts.
enum class Launcher { kAuto, kSsh, kSrun };

struct Arguments {
  Action action = Action::kRun;
  int processes = 0;  ///< 0: not given
  std::string hosts;
  std::string hostfile;
  Launcher launcher = Launcher::kAuto;
  SshOptions ssh;
  bool mpi = false;              ///< mpirun starts the ranks
  bool tcp = false;              ///< with `mpi`: MPI uses TCP and shared memory alone
  std::string mpi_args;          ///< words for mpirun, blanks between them
  std::string binding_args;      ///< the same, instead of ours about binding
  std::string output_directory;  ///< empty: none
  bool timestamps = false;
  bool verbose = false;
  std::chrono::seconds grace{5};
  std::chrono::duration<double> start_timeout{30};
  std::map<std::string, std::string> variables;  ///< knobs given as flags: RUEDA_FUSION_THRESHOLD -> 64MiB
  std::vector<std::string> command;              ///< the program and what belongs to it
  std::string text;                              ///< of kHelp and kCompletion
  int64_t dumped = 0;                            ///< of kDump: whose ranks
};

/// Reads the command line, the program's name (argv[0]) left out. Flags end at the first word that is none: that is the
/// program. kInvalidArgument: one sentence that names the word, what is wrong, and the nearest flag.
Result<Arguments> parse_arguments(const std::vector<std::string>& words);

}  // namespace rueda::core::launcher
