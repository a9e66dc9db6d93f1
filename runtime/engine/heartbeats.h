#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Finds the peers on other hosts that have been silent for too long: a stopped process, or a lost host, closes
/// nothing. Pure: it is told the time. `Turn` owns it; the baton's holder uses it.
class Heartbeats {
 public:
  /// `limit`: the longest silence; if it is zero or less, no silence is too long.
  Heartbeats(const std::vector<int>& peers, std::chrono::nanoseconds limit);
  /// Something came from this rank; its silence is judged from its first sign of life on.
  void heard(int rank);
  /// The rank needs no watching any more.
  void forget(int rank) { peers_.erase(rank); }
  bool watching() const { return !peers_.empty(); }
  /// The ranks that are watched, and are to be sent signs of life.
  std::vector<int> watched() const;
  /// To be called about once a second, with a clock that never goes back. True if a sign of life is to be sent: three
  /// are due within the limit.
  bool due(SteadyClock::time_point now);
  /// To be called as often as `due`, after it. Returns the silent ranks, each once; none if this process itself has
  /// slept in between.
  std::vector<int> silent(SteadyClock::time_point now);

 private:
  struct Peer {
    bool known = false;
    bool heard = false;  ///< since the last look
    SteadyClock::time_point last;
  };
  std::map<int, Peer> peers_;
  const std::chrono::nanoseconds limit_;
  SteadyClock::time_point last_beat_;
  SteadyClock::time_point last_look_;
};

}  // namespace rueda::core
