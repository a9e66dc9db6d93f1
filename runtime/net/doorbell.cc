// The futex calls behind a bell (futex(2)). The order of the steps, which decides whether a ring can be lost, is in the
// header, where a test runs it over a model; this file only has what needs the kernel.
#include "runtime/net/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace rueda::core {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "a futex word is the atomic itself");

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void FutexBell::wake() {
  // Only the owner sleeps on its bell, but waking all costs the same and forgives a test with several sleepers.
  futex(bell_.count, FUTEX_WAKE, INT_MAX, nullptr);
}

void FutexBell::wait(uint32_t seen) {
  if (limit_.count() <= 0) return;
  constexpr int64_t kNanos = 1'000'000'000;
  timespec timeout{};
  timeout.tv_sec = limit_.count() / kNanos;
  timeout.tv_nsec = limit_.count() % kNanos;
  // EAGAIN (rung meanwhile), EINTR and ETIMEDOUT all mean the same to the caller: look again.
  futex(bell_.count, FUTEX_WAIT, seen, &timeout);
}

void ring_always(Bell& bell) {
  FutexBell words(bell);
  words.add_to_count();
  words.wake();
}

}  // namespace rueda::core
