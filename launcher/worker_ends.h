#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <vector>

#include "launcher/descendants.h"
#include "launcher/event_loop.h"
#include "runtime/base/deadline.h"

namespace rueda::core::launcher {

/// Between two SIGKILLs to processes that still live, and how long they are tried.
inline constexpr std::chrono::milliseconds kKillAgain{200};
inline constexpr std::chrono::milliseconds kGiveUpAfter{10000};

/// Ends single workers of an agent, each with all its processes, while the others go on. A process belongs to a worker
/// if it is below the worker's own or carries the worker's number in its environment (RUEDA_WORKER_ID), so children
/// that outlive the worker are found. Belongs to the loop's thread.
class WorkerEnds {
 public:
  explicit WorkerEnds(EventLoop& loop) : loop_(loop) {}

  /// Sends SIGTERM to the worker's processes, and after `grace` SIGKILL to those that are left, until none is. `pid` is
  /// its own process if that has not ended, else -1. A later call can only bring SIGKILL nearer.
  void end(int worker, pid_t pid, std::chrono::milliseconds grace);
  /// The worker's own process has ended: ends what it has left behind, if anything.
  void clean_up(int worker, std::chrono::milliseconds grace);

 private:
  struct End {
    explicit End(EventLoop& loop) : timer(loop) {}
    pid_t pid = -1;
    SteadyClock::time_point kill_at;
    SteadyClock::time_point give_up_at;
    Timer timer;
  };
  static std::vector<ProcessMark> processes_of(int worker, pid_t pid);
  void kill_all(int worker);

  EventLoop& loop_;
  std::map<int, End> ends_;
};

}  // namespace rueda::core::launcher
