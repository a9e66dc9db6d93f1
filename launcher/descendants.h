#pragma once
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace rueda::core::launcher {

/// A process, and the time at which it started, in the kernel's ticks since boot. A number is given again to another
/// process later; the two together are not.
struct ProcessMark {
  pid_t pid = -1;
  uint64_t started = 0;
  bool operator==(const ProcessMark&) const = default;
};

/// Every living process below `ancestor`, found by the parents that /proc shows. Includes processes that left their
/// session, group or parent, if `ancestor` is the subreaper that adopts them. May miss a process that is forked
/// meanwhile, so a caller that must end them all looks again.
std::vector<ProcessMark> descendants_of(pid_t ancestor);

/// Sends `signal` to this process, and to no other that has got its number meanwhile. Returns false if it has ended.
/// Without pidfds (Linux 5.3, or a seccomp filter) the number alone must do, checked right before.
bool signal_process(const ProcessMark& process, int signal);

/// Sends `signal` to every process below the calling one. SIGCONT follows SIGTERM, because a stopped process would not
/// act on it.
void signal_descendants(int signal);

}  // namespace rueda::core::launcher
