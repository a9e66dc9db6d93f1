#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// What hvdrun has decided and checked before it starts anything. A plain value.
struct JobPlan {
  std::vector<Placement> placements;   ///< one for each rank, by rank
  std::vector<HostShare> hosts;        ///< the hosts that got ranks; rank 0's is the first
  std::string program;                 ///< path of the executable; a bare name if only other hosts have it
  std::string directory;               ///< working folder of the ranks, on every host
  Launcher launcher = Launcher::kSsh;  ///< what reaches other hosts: kSsh or kSrun, never kAuto
  std::string interfaces;              ///< interfaces for the store, as in RUEDA_NETWORK_INTERFACES
  /// hvdrun counts another host as lost after this much silence; zero means never.
  std::chrono::milliseconds silence{5000};
  /// For an elastic job. `placements` then has one for each slot, also above --max-np; it and `hosts` are empty if a
  /// script lists the hosts.
  std::optional<MembershipRules> elastic = {};
};

/// A plan, or the sentence with which hvdrun refuses the command line.
struct PlannedJob {
  JobPlan plan;
  std::vector<std::string> notes;  ///< a sentence for each flag that has no effect; to be shown in either case
  int exit_code = 0;               ///< 0: `plan` is complete. Else hvdrun shows `sentence` and exits with this code
  std::string sentence;
};

/// Plans the job of a command line: finds its hosts (flags, else batch system, else this machine), assigns ranks to
/// slots, and finds the program. Reads files and the environment and may block on a name lookup; starts nothing.
/// Exit codes: 2 for a wrong command line or setting, 1 if the system fails, 126 or 127 as a shell for the program.
PlannedJob plan_job(const Arguments& arguments);

/// Plans `--check-build`: every slot of the hosts that flags or batch system name. `plan.hosts` is empty if neither
/// names any. Exit code 2 for a wrong command line.
PlannedJob plan_check(const Arguments& arguments);

}  // namespace rueda::core::launcher
