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

/// What a kernel says of one connection: whether something it sent is not acknowledged, and for how long nothing was.
struct PathState {
  bool outstanding = false;
  std::chrono::milliseconds since_heard{0};
};

/// Nothing for a descriptor that is no TCP connection. A peer that is alive but takes nothing acknowledges all the
/// same.
PathState path_state(int fd);

/// How long the other end of one connection has owed an answer. A host that is lost, or cut off, closes nothing, and
/// TCP by itself tries for a quarter of an hour. Pure: it is told the time.
class PathSilence {
 public:
  /// To be called again and again; whether the path has been silent for `limit`.
  bool seen(const PathState& state, SteadyClock::time_point now, std::chrono::nanoseconds limit);
  /// Whoever slept itself judges nobody.
  void start_over() { answered_ = {}; }

 private:
  SteadyClock::time_point answered_;  ///< the last time that it owed nothing, or answered; never: not seen yet
};

/// A path that is silent: to whom, and between which addresses, or why none comes about.
struct SilentPath {
  int rank = -1;
  std::string from, to;
  std::string unreachable;  ///< instead of addresses
};

/// The connections of an epoch over which data goes, or is to go. Any thread.
class PathWatch {
 public:
  /// Watches a connection of the caller's; it may be closed at any time. The number ends the watch.
  uint64_t add(int rank, int fd) RUEDA_EXCLUDES(mutex_);
  void remove(uint64_t number) RUEDA_EXCLUDES(mutex_);
  /// No address of the rank connects, and for what reasons; `reached` ends it.
  void unreachable(int rank, SteadyClock::time_point since, std::string why) RUEDA_EXCLUDES(mutex_);
  void reached(int rank) RUEDA_EXCLUDES(mutex_);
  /// About once a second. Who is silent for `limit`, each rank once.
  std::vector<SilentPath> silent(SteadyClock::time_point now, std::chrono::nanoseconds limit) RUEDA_EXCLUDES(mutex_);

 private:
  struct Path {
    int rank;
    UniqueFd fd;  ///< a copy
    PathSilence silence;
  };
  Mutex mutex_;
  struct Unreached {
    SteadyClock::time_point since;
    std::string why;
  };
  std::map<uint64_t, Path> paths_ RUEDA_GUARDED_BY(mutex_);
  std::map<int, Unreached> unreached_ RUEDA_GUARDED_BY(mutex_);  ///< by rank
  uint64_t last_number_ RUEDA_GUARDED_BY(mutex_) = 0;
  SteadyClock::time_point last_look_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
