#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/net/doorbell.h"

namespace rueda::core {

/// Lets its lane's bell wake a lane that sleeps in an event loop: a thread of the bridge sleeps on the bell meanwhile
/// and wakes the loop. Only a lane that waits for shared memory and for sockets at once has one.
///
///   lane    seen = count; asleep = 1; nothing came? arm(seen); wait in the loop; disarm(); asleep = 0
///   bridge  armed: FUTEX_WAIT(seen); count has moved: wake()
///
/// Only the bell's owner calls `arm` and `disarm`. A wake that comes late makes the loop look once in vain.
class BellBridge {
 public:
  /// `bell` outlives the bridge; `wake` is called on the bridge's thread and may be called at any time until the
  /// destructor has returned.
  BellBridge(Bell& bell, std::function<void()> wake);
  /// Starts the thread, before anything below. Returns kSystem if the system gives none.
  Status start();
  ~BellBridge();
  BellBridge(const BellBridge&) = delete;
  BellBridge& operator=(const BellBridge&) = delete;

  /// Wakes the loop once as soon as the bell's count differs from `seen`.
  void arm(uint32_t seen) RUEDA_EXCLUDES(mutex_);
  /// Takes the order back: the owner is awake.
  void disarm() RUEDA_EXCLUDES(mutex_);

 private:
  enum class Task { kSleep, kWake, kStop };
  void run();
  void wake_safely();
  Task next_task(uint32_t& seen) RUEDA_EXCLUDES(mutex_);

  Bell& bell_;
  std::function<void()> wake_;
  Mutex mutex_;
  Condition changed_;
  bool armed_ RUEDA_GUARDED_BY(mutex_) = false;
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  uint32_t seen_ RUEDA_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace rueda::core
