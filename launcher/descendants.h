#pragma once
#include <sys/types.h>

#include <vector>

namespace rueda::core::launcher {

/// Every living process below `ancestor`, found by the parents that /proc shows. Includes processes that left their
/// session, group or parent, if `ancestor` is the subreaper that adopts them. May miss a process that is forked
/// meanwhile, so a caller that must end them all looks again.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Sends `signal` to every process below the calling one. SIGCONT follows SIGTERM, because a stopped process would not
/// act on it.
void signal_descendants(int signal);

}  // namespace rueda::core::launcher
