// The thread that carries a ring of the lane's bell into the lane's event loop.
//
//   idle ── arm(seen) ──▶ asleep on the bell ── the count moves ──▶ wake(), idle again
//    ▲                          │
//    └─────── disarm() ─────────┘  (the thread notices at its next look, within kLongestSleep)
//
// The mutex guards the orders to the thread, never its sleep: the owner must be able to disarm without waiting for it.
#include "runtime/net/bell_bridge.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"

namespace rueda::core {

BellBridge::BellBridge(Bell& bell, std::function<void()> wake) : bell_(bell), wake_(std::move(wake)) {}

Status BellBridge::start() {
  return start_thread(thread_, "that wakes a lane", [this] { run(); });
}

BellBridge::~BellBridge() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (!thread_.joinable()) return;
  ring_always(bell_);  // the thread may sleep on the bell and not on `changed_`
  thread_.join();
}

void BellBridge::arm(uint32_t seen) {
  MutexLock lock(mutex_);
  armed_ = true;
  seen_ = seen;
  changed_.notify_all();
}

void BellBridge::disarm() {
  MutexLock lock(mutex_);
  armed_ = false;
}

BellBridge::Task BellBridge::next_task(uint32_t& seen) {
  MutexLock lock(mutex_);
  while (!armed_ && !stopping_) changed_.wait(mutex_);
  if (stopping_) return Task::kStop;
  seen = seen_;
  if (bell_.count.load() == seen) return Task::kSleep;
  armed_ = false;  // one wake for each arming: the owner arms again if it goes back to sleep
  return Task::kWake;
}

/// For want of memory the loop is not woken. It looks by itself once a second (`LoopWait`), so the lane goes on late.
void BellBridge::wake_safely() {
  try {
    wake_();
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "a lane is woken late: {}", failure_of(error).sentence());
  }
}

void BellBridge::run() {
  for (;;) {
    uint32_t seen = 0;
    switch (next_task(seen)) {
      case Task::kStop: return;
      case Task::kWake: wake_safely(); break;
      // The owner may arm anew meanwhile. Either the count has moved, which ends this sleep, or `seen` is the same.
      case Task::kSleep: FutexBell(bell_, kLongestSleep).wait(seen); break;
    }
  }
}

}  // namespace rueda::core
