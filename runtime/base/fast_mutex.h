#pragma once
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "runtime/base/mutex.h"

namespace rueda::core {

/// A mutex of one futex word, for locks that each operation takes and usually holds for less than a microsecond. Taking
/// it and giving it back are one instruction each that locks memory, inline, as long as no two threads want it at once;
/// glibc's mutex takes sixty instructions in two calls. The steps are those of Drepper, Futexes Are Tricky, section 5.
/// A thread that finds it taken looks again for some microseconds before it sleeps. Memory that held one may be freed
/// as soon as the last thread has taken and given it back. errno stays as it is.
class RUEDA_CAPABILITY("mutex") FutexMutex {
 public:
  FutexMutex() = default;
  FutexMutex(const FutexMutex&) = delete;
  FutexMutex& operator=(const FutexMutex&) = delete;
  void lock() RUEDA_ATTRIBUTE(acquire_capability()) {
    if (!take()) wait_and_take();
  }
  void unlock() RUEDA_ATTRIBUTE(release_capability()) {
    if (word_.exchange(kFree, std::memory_order_release) == kAwaited) wake_one();
  }
  bool try_lock() RUEDA_ATTRIBUTE(try_acquire_capability(true)) { return take(); }

 private:
  static constexpr uint32_t kFree = 0, kTaken = 1, kAwaited = 2;  ///< awaited: taken, and a thread may sleep
  bool take() {
    uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void wait_and_take();
  void wake_one();

  std::atomic<uint32_t> word_{kFree};
};

/// Under sanitizers `Mutex`, because ThreadSanitizer reports locks that are taken in two orders only if it knows them.
using FastMutex = std::conditional_t<RUEDA_SANITIZED != 0, Mutex, FutexMutex>;

}  // namespace rueda::core
