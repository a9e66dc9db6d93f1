#pragma once
#include <atomic>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Why an epoch ended: set once, the first reason wins, asked by every wait. Any thread. Lives as long as the epoch.
class Abort {
 public:
  /// True for the call that set the reason. The caller then rings every bell of this process.
  bool raise(Status why) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (raised_.load(std::memory_order_relaxed)) return false;
    why_ = std::move(why);
    raised_.store(true);
    return true;
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
  Status why_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
