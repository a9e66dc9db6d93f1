#pragma once
#include <sys/types.h>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// A guard of this host, started from our own executable, and our end of the socket that its agent talks over.
struct AgentProcess {
  pid_t guard = -1;
  UniqueFd socket;
};

/// To be called before the process has threads. kSystem: which step failed, and errno.
Result<AgentProcess> start_local_agent();

}  // namespace rueda::core::launcher
