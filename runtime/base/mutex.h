#pragma once
#include <pthread.h>

#include <condition_variable>

#include "runtime/base/thread_annotations.h"

namespace rueda::core {

/// A mutex that clang's thread-safety analysis knows. A thread that finds it taken looks again for some microseconds
/// before it sleeps: glibc's adaptive mutex does so, std::mutex does not. Most mutexes here are held for less than a
/// microsecond, and a sleep with its wake-up costs several.
class RUEDA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() RUEDA_ATTRIBUTE(acquire_capability()) { ::pthread_mutex_lock(&mutex_); }
  void unlock() RUEDA_ATTRIBUTE(release_capability()) { ::pthread_mutex_unlock(&mutex_); }
  bool try_lock() RUEDA_ATTRIBUTE(try_acquire_capability(true)) { return ::pthread_mutex_trylock(&mutex_) == 0; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

/// Holds a `Mutex`, or another kind of mutex, for a scope.
template <typename Kind = Mutex>
class RUEDA_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Kind& mutex) RUEDA_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RUEDA_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Kind& mutex_;
};

/// Waits with a `Mutex` that the caller holds, and holds again on return.
using Condition = std::condition_variable_any;

}  // namespace rueda::core
