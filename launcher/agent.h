#pragma once
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Serves hvdrun over stdin and stdout (launcher/messages.h): starts this host's ranks, passes on their output and
/// hvdrun's signals, reports how they end, and returns only when no process is left below it. If hvdrun's link closes
/// or `guard` reaches its end of file, it ends all ranks first. Blocks. The caller is the main thread of a process that
/// has no other. Returns the exit status for the process.
int run_agent(UniqueFd guard);

}  // namespace rueda::core::launcher
