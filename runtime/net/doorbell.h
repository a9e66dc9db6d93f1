#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// The one place where threads sleep on, and ring, a word that may lie in shared memory.
///
///   to sleep: read count, store asleep = 1, re-read the condition, FUTEX_WAIT(count read), store asleep = 0
///   to ring:  store data, read asleep, and if set: count += 1, FUTEX_WAKE
///
/// Everything is sequentially consistent, so either the sleeper's re-read sees the data or the ringer sees `asleep`
/// (Dekker's argument); a ring between the read of `count` and FUTEX_WAIT makes the wait return at once. The owner
/// alone writes `asleep`; any rank of the host may ring.
struct alignas(64) Bell {
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> asleep{0};
};

/// Call after the sequentially consistent store of the data the sleeper looks for. Any thread of any local process.
/// No system call unless somebody sleeps.
void ring(Bell& bell);
/// Rings whether or not anybody seems asleep: for aborts and shutdown.
void ring_always(Bell& bell);
/// FUTEX_WAIT for at most `timeout` while `bell.count == seen`. Spurious returns are fine.
void futex_wait(Bell& bell, uint32_t seen, std::chrono::nanoseconds timeout);

/// How a thread waits before it sleeps (design: "Sleeping and waking").
enum class WaitStyle { kPause, kYield };
inline constexpr std::chrono::microseconds kSpinBudget{50};

/// One step of a bounded spin: a pause, or sched_yield when ranks outnumber cores.
void relax(WaitStyle style);

/// Spins for at most `budget`, then sleeps on `bell`, until `ready()` or the deadline. True when ready.
/// Only the bell's owner calls it. `ready` may be called any number of times and must read with acquire or stronger.
template <typename Ready>
bool spin_then_sleep(Bell& bell, WaitStyle style, std::chrono::nanoseconds budget, Deadline deadline, Ready&& ready) {
  const auto spin_end = SteadyClock::now() + budget;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax(style);
    }
  } while (SteadyClock::now() < spin_end);
  for (;;) {
    const uint32_t seen = bell.count.load();
    bell.asleep.store(1);
    if (ready()) {
      bell.asleep.store(0);
      return true;
    }
    if (deadline.passed()) {
      bell.asleep.store(0);
      return false;
    }
    futex_wait(bell, seen, deadline.left(std::chrono::seconds(1)));
    bell.asleep.store(0);
  }
}

}  // namespace rueda::core
