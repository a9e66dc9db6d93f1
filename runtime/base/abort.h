#pragma once
#include <atomic>
#include <chrono>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Why an epoch ended. Set once: the first reason wins. Every wait asks for it. Any thread. Lives as long as the epoch.
class Abort {
 public:
  /// Returns true if this call set the reason. Its caller then rings every doorbell of this process, so that waits end.
  bool raise(Status why) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (raised_.load(std::memory_order_relaxed)) return false;
    why_ = std::move(why);
    raised_.store(true);
    changed_.notify_all();
    return true;
  }
  /// Waits for a reason, at most `limit`. Returns whether there is one.
  bool await(std::chrono::nanoseconds limit) const RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!raised() && changed_.wait_until(mutex_, end) == std::cv_status::no_timeout) {
    }
    return raised();
  }
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// Ok while nothing was raised.
  Status why() const RUEDA_EXCLUDES(mutex_) {
    if (!raised()) return {};
    MutexLock lock(mutex_);
    return why_;
  }

 private:
  std::atomic<bool> raised_{false};
  mutable Mutex mutex_;
  mutable Condition changed_;
  Status why_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
