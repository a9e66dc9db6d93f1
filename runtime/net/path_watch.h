#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// What the kernel says of one connection: whether sent data is unacknowledged, and how long ago the last answer came.
struct PathState {
  bool outstanding = false;
  std::chrono::milliseconds since_heard{0};
};

/// Returns an empty state if the descriptor is not a TCP connection. The kernel of a live peer acknowledges even if the
/// peer's program reads nothing.
PathState path_state(int fd);

/// How long the other end of one connection has owed an answer. A host that is lost or cut off closes nothing, and TCP
/// by itself tries for a quarter of an hour. Reads no clock; the caller passes the time.
class PathSilence {
 public:
  /// Takes the newest state; the caller repeats it about once a second. Returns true if the path has been silent for
  /// `limit`.
  bool seen(const PathState& state, SteadyClock::time_point now, std::chrono::nanoseconds limit);
  /// Forgets the silence so far: this process was stopped itself and may have missed answers.
  void start_over() { answered_ = {}; }

 private:
  SteadyClock::time_point answered_;  ///< when the peer last owed nothing or answered; zero before the first look
};

/// A silent path: the peer, and the addresses of the connection or why there is none.
struct SilentPath {
  int rank = -1;
  std::string from, to;
  std::string unreachable;  ///< why no address connects; the addresses are then empty
};

/// The data connections of an epoch, made or wanted. Any thread.
class PathWatch {
 public:
  /// Watches a connection, which stays the caller's and may be closed at any time. Returns the number for `remove`.
  uint64_t add(int rank, int fd) RUEDA_EXCLUDES(mutex_);
  void remove(uint64_t number) RUEDA_EXCLUDES(mutex_);
  /// Records that no address of the rank connects since `since`, and why; `reached` ends it.
  void unreachable(int rank, SteadyClock::time_point since, std::string why) RUEDA_EXCLUDES(mutex_);
  void reached(int rank) RUEDA_EXCLUDES(mutex_);
  /// Returns the paths that have been silent for `limit`, one for each rank. Call it about once a second.
  std::vector<SilentPath> silent(SteadyClock::time_point now, std::chrono::nanoseconds limit) RUEDA_EXCLUDES(mutex_);

 private:
  struct Path {
    int rank;
    UniqueFd fd;  ///< a copy
    PathSilence silence;
  };
  struct Unreached {
    SteadyClock::time_point since;
    std::string why;
  };
  Mutex mutex_;
  std::map<uint64_t, Path> paths_ RUEDA_GUARDED_BY(mutex_);
  std::map<int, Unreached> unreached_ RUEDA_GUARDED_BY(mutex_);  ///< by rank
  uint64_t last_number_ RUEDA_GUARDED_BY(mutex_) = 0;
  SteadyClock::time_point last_look_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
