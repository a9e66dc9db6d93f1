#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// The process that an agent is reached through, and our ends.
struct AgentProcess {
  pid_t pid = -1;   ///< the guard, if the agent is on this host, else the command that leads to the other one
  UniqueFd socket;  ///< where the agent's messages go and come
  UniqueFd errors;  ///< what that command writes on stderr, non-blocking; invalid for a guard, which has ours
};

/// A guard of this host, started from our own executable. kSystem: which step failed, and errno.
Result<AgentProcess> start_local_agent();

/// A command, found in PATH, in a session of its own: what is typed at our terminal is not for it. kSystem: which step
/// failed, and errno.
Result<AgentProcess> start_remote_agent(const std::vector<std::string>& command);

}  // namespace rueda::core::launcher
