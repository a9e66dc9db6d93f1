#pragma once
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Serves hvdrun over stdin and stdout (launcher/messages.h): starts this host's ranks, passes on their output, signals
/// and ends, and leaves only when nothing is below it. If hvdrun's link closes, or `guard` does, it ends all of them
/// first. To be called on the main thread of a process without others. Returns the exit status for the process.
int run_agent(UniqueFd guard);

}  // namespace rueda::core::launcher
