#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Judges local ranks that were stopped (SIGSTOP): a process that has been stopped for the limit without a break counts
/// as dead. Busy, waiting and traced processes are not stopped. Pure: a look is handed in with its time. The
/// coordinator owns it; its thread uses it.
class StoppedPeers {
 public:
  /// If `limit` is zero no rank is ever judged.
  explicit StoppedPeers(std::chrono::nanoseconds limit) : limit_(limit) {}

  /// `rank` was seen in this state of /proc/PID/stat. Returns true once, when it has been stopped for the limit:
  /// between two looks it counts as stopped only if both found it so.
  bool seen(int rank, char state, SteadyClock::time_point now);
  /// Whether a rank is stopped: then look more often.
  bool watching() const { return !stopped_.empty(); }

 private:
  struct Stop {
    SteadyClock::time_point since;
    bool told = false;
  };
  std::chrono::nanoseconds limit_;
  std::map<int, Stop> stopped_;
};

}  // namespace rueda::core
