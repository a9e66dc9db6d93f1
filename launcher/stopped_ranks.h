#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/event_loop.h"

namespace rueda::core::launcher {

/// Times how long ranks have been stopped (SIGSTOP), as their agents report it. A rank is overdue after three fifths of
/// RUEDA_PEER_TIMEOUT_SECONDS. While all ranks that run are stopped the time does not count: the user has paused the
/// job, and no rank waits for another. Nor does time count in which hvdrun itself does not run. Belongs to the loop's
/// thread.
class StoppedRanks {
 public:
  struct Events {
    std::function<std::vector<int>()> running;  ///< the ranks that have not ended
    /// A rank is overdue; again with each tick while it stays stopped. `how` is a clause: "it has been stopped ...".
    std::function<void(int rank, const std::string& how)> overdue;
  };
  /// `timeout`: RUEDA_PEER_TIMEOUT_SECONDS; zero means that no rank is ever overdue.
  StoppedRanks(EventLoop& loop, std::chrono::milliseconds timeout, Events events);

  /// `signal` has stopped the rank; 0: it goes on.
  void changed(int rank, int signal);
  /// Returns whether there are any of these ranks and each is stopped.
  bool all_of(const std::vector<int>& ranks) const;

 private:
  struct Stop {
    int signal = 0;
    int ticks = 0;
  };
  void watch();
  void tick();

  const std::chrono::milliseconds timeout_;
  const Events events_;
  Timer timer_;
  std::map<int, Stop> stops_;
};

}  // namespace rueda::core::launcher
