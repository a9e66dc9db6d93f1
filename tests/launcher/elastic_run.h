#pragma once
#include <string>
#include <vector>

#include "tests/launcher/hvdrun_process.h"

using Lines = std::vector<std::string>;

namespace rueda::core::launcher {

/// Runs hvdrun with these flags and a shell in which "$0" is the worker program.
inline Lines elastic(Lines flags, const std::string& script) {
  for (const char* word : {"sh", "-c"}) flags.emplace_back(word);
  flags.push_back(script);
  flags.emplace_back(RUEDA_LAUNCHER_RANK);
  return flags;
}

/// hvdrun's own lines, without pids.
inline Lines reported(const HvdrunProcess& run) {
  auto lines = HvdrunProcess::lines(run.err(), "hvdrun: ");
  for (auto& line : lines) {
    const size_t pid = line.find(", pid ");
    if (pid != std::string::npos) line.erase(pid, line.find(')', pid) - pid);
  }
  return lines;
}

}  // namespace rueda::core::launcher
