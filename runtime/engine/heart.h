#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"

namespace rueda::core {

/// Counts `ControlWords::beats` up for as long as this process runs, so that the ranks of the host see in shared memory
/// that it does. Its thread does nothing else: the program (Python's interpreter lock), a full terminal or a slow disk
/// may hold every other thread of the process, and the heart still beats. A stopped or frozen process has no heartbeat.
/// The engine owns it. One thread calls `start` and `stop`.
class Heart {
 public:
  /// The last value of the word: no beats come any more, and silence means nothing.
  static constexpr uint64_t kAtRest = UINT64_MAX;

  /// `beats` outlives the heart. `limit`: after this silence peers count the rank as dead; ten beats fit in it.
  Heart(std::atomic<uint64_t>& beats, std::chrono::nanoseconds limit);
  ~Heart() { stop(); }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  /// Beats once, then starts the thread under this name. If the system gives no thread, the heart is at rest, with a
  /// warning in the log: the job runs on, and this rank is found only if the kernel shows it as stopped.
  void start(const std::string& name, int rank) RUEDA_EXCLUDES(mutex_);
  /// Ends the thread and puts the heart at rest. A second call does nothing.
  void stop() RUEDA_EXCLUDES(mutex_);

 private:
  void beat() RUEDA_EXCLUDES(mutex_);

  std::atomic<uint64_t>& beats_;
  const std::chrono::nanoseconds period_;
  Mutex mutex_;
  Condition stopped_;
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rueda::core
