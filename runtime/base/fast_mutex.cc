// What a thread does that finds the mutex taken: it looks for a while, because the holder is about to give it back, and
// then sleeps on the word. It takes the mutex as awaited, since it cannot know whether others sleep too; that costs one
// call that wakes nobody.
#include "runtime/base/fast_mutex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/ticks.h"

namespace rueda::core {
namespace {

constexpr uint64_t kTicksOfLooks = 4000;  // one to four microseconds

}  // namespace

void FutexMutex::wait_and_take() {
  const int before = errno;
  for (const uint64_t began = ticks(); ticks() - began < kTicksOfLooks;) {
    if (word_.load(std::memory_order_relaxed) == kFree && take()) return;
  }
  while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kAwaited, nullptr, nullptr, 0);
  }
  errno = before;
}

void FutexMutex::wake_one() {
  const int before = errno;
  ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = before;
}

}  // namespace rueda::core
