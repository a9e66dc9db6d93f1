#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// All that was checked before anything starts.
struct JobPlan {
  std::vector<Placement> placements;
  std::vector<HostShare> hosts;        ///< who runs them
  std::string program;                 ///< the file
  std::string directory;               ///< where they run
  Launcher launcher = Launcher::kSsh;  ///< not kAuto
  std::string interfaces;              ///< where the store may listen, as in RUEDA_NETWORK_INTERFACES
  /// After so long without a word another host is lost; zero: never.
  std::chrono::milliseconds silence{5000};
};

/// Runs a job to its end: agents, store, ranks, output, signals, the first failure. Nothing that it started is left on
/// any host when it returns hvdrun's exit code, nor, after a while, on one that it lost. Blocks; called once per
/// process, on its main thread. Throws what the libraries throw where a resource is used up
/// (descriptors); then too nothing is left here.
int run_job(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
