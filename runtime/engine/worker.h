#pragma once
#include <deque>
#include <functional>
#include <thread>

#include "runtime/base/mutex.h"

namespace rueda::core {

/// Runs what is posted, in order, on one thread that starts with the first of it: for what may block, such as a
/// function of the user's. Made and stopped by the engine's owner; `post` from any thread.
class Worker {
 public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// After `stop` nothing runs.
  void post(std::function<void()> work) RUEDA_EXCLUDES(mutex_);
  /// Waits for what runs, drops what is queued, joins.
  void stop() RUEDA_EXCLUDES(mutex_);

 private:
  void run() RUEDA_EXCLUDES(mutex_);

  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> queue_ RUEDA_GUARDED_BY(mutex_);
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< started under mutex_, joined by `stop`
};

}  // namespace rueda::core
