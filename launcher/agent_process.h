#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// The process that leads to an agent, and hvdrun's ends of the descriptors between them.
struct AgentProcess {
  pid_t pid = -1;   ///< a guard, if the agent is on this host, else the command (ssh, srun) that leads to the other one
  UniqueFd socket;  ///< carries the agent's messages both ways
  UniqueFd errors;  ///< stderr of that command, non-blocking; invalid for a guard, which shares ours
};

/// Starts a guard on this host from our own executable. Returns kSystem with the step that failed and its errno.
Result<AgentProcess> start_local_agent();

/// Starts a command, found in PATH, in a session of its own, so that keys typed at our terminal send it no signal.
/// Returns kSystem with the step that failed and its errno.
Result<AgentProcess> start_remote_agent(const std::vector<std::string>& command);

/// Blocks until every such process has ended. Call it after their links are closed, which makes them end.
void await_agent_processes();

}  // namespace rueda::core::launcher
