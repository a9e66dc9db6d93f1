#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Who at the other end of an edge between hosts has been silent for too long: a process that is stopped, or a host
/// that is lost, closes nothing. Pure: it is told the time. Used by the baton's holder.
class Heartbeats {
 public:
  /// `limit`: of silence; zero or less: never too long.
  Heartbeats(const std::vector<int>& peers, std::chrono::nanoseconds limit);
  /// Something came from this rank; its silence is judged from its first sign of life on.
  void heard(int rank);
  /// The rank needs no watching any more.
  void forget(int rank) { peers_.erase(rank); }
  bool watching() const { return !peers_.empty(); }
  /// Who is watched, and is to be sent signs of life.
  std::vector<int> watched() const;
  /// About once a second, with a clock that never goes back. Whether to send a sign of life, which is due a few times
  /// in the limit.
  bool due(SteadyClock::time_point now);
  /// As `due`, once after it: who is silent; each is named once. Who slept itself judges nobody.
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
