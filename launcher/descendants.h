#pragma once
#include <sys/types.h>

#include <vector>

namespace rueda::core::launcher {

/// Every living process below `ancestor`, by the parents that /proc shows: processes that left their session, group or
/// parent are found too, as long as `ancestor` is the subreaper they fall back to. A process forked meanwhile may be
/// missed; whoever ends them all looks again.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Sends `signal` to every process below the calling one; SIGTERM is followed by SIGCONT, else a stopped one sleeps on.
void signal_descendants(int signal);

}  // namespace rueda::core::launcher
