#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Judges local ranks that somebody has stopped (SIGSTOP): as long as the limit without a break is as good as dead.
/// Busy, waiting and traced processes are not stopped. Pure: a look is handed in with its time. Owned by the
/// coordinator thread.
class StoppedPeers {
 public:
  /// Zero: nobody is ever judged.
  explicit StoppedPeers(std::chrono::nanoseconds limit) : limit_(limit) {}

  /// `rank` was seen in this state of /proc/PID/stat. True once, when it has been stopped for the limit: between two
  /// looks it counts as stopped only if both saw it so.
  bool seen(int rank, char state, SteadyClock::time_point now);
  /// Somebody is stopped: look more often.
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
