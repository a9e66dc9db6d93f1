#pragma once
#include <condition_variable>
#include <mutex>

#include "runtime/base/thread_annotations.h"

namespace rueda::core {

/// A std::mutex that clang's thread-safety analysis knows.
class RUEDA_CAPABILITY("mutex") Mutex {
 public:
  void lock() RUEDA_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() RUEDA_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  bool try_lock() RUEDA_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Holds a `Mutex` for a scope.
class RUEDA_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RUEDA_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RUEDA_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits with a `Mutex` that the caller holds, and holds again on return.
using Condition = std::condition_variable_any;

}  // namespace rueda::core
