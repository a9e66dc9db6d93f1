#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// A word, possibly in shared memory, that threads sleep on and ring. No other code of the runtime does either.
///
///   to sleep: read count, store asleep = 1, re-read the condition, FUTEX_WAIT(count read), store asleep = 0
///   to ring:  store data, read asleep, and if set: count += 1, FUTEX_WAKE
///
/// Everything is sequentially consistent, so either the sleeper's re-read sees the data or the ringer sees `asleep`
/// (Dekker's argument); a ring between the read of `count` and FUTEX_WAIT makes the wait return at once. The owner
/// alone writes `asleep`; any rank of the host may ring. If a ringer dies between its last two steps, the next ring
/// wakes the sleeper; at the latest that is the ring of the abort which the death raises.
struct alignas(64) Bell {
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> asleep{0};
};

/// The steps themselves, over anything with the operations of `FutexBell`; each is one atomic step. A test
/// runs this very code over a model of a bell in every interleaving.
namespace bell_steps {

template <typename Words>
void ring(Words& words) {
  if (words.asleep() == 0) return;
  words.add_to_count();
  words.wake();
}

/// One round of going to sleep. Returns true if `ready()` was true, false once the wait has returned for any reason.
template <typename Words, typename Ready>
bool sleep(Words& words, Ready&& ready) {
  const uint32_t seen = words.count();
  words.store_asleep(1);
  const bool found = ready();
  if (!found) words.wait(seen);
  words.store_asleep(0);
  return found;
}

}  // namespace bell_steps

/// A bell and the futex calls on it. The words are shared between processes, so never FUTEX_PRIVATE.
class FutexBell {
 public:
  explicit FutexBell(Bell& bell, std::chrono::nanoseconds limit = std::chrono::nanoseconds(0))
      : bell_(bell), limit_(limit) {}
  uint32_t count() const { return bell_.count.load(); }
  uint32_t asleep() const { return bell_.asleep.load(); }
  void store_asleep(uint32_t value) { bell_.asleep.store(value); }
  void add_to_count() { bell_.count.fetch_add(1); }
  void wake();
  /// Sleeps while the count is `seen`, at most for the limit. May return early without cause.
  void wait(uint32_t seen);

 private:
  Bell& bell_;
  std::chrono::nanoseconds limit_;
};

/// Wakes the bell's owner if it sleeps; otherwise makes no system call. The caller has stored what the owner looks for,
/// sequentially consistently, before. Any thread of any local process.
inline void ring(Bell& bell) {
  FutexBell words(bell);
  bell_steps::ring(words);
}
/// Rings even if the owner seems awake: for aborts and shutdown.
void ring_always(Bell& bell);

/// How a thread waits before it sleeps.
enum class WaitStyle { kPause, kYield };
inline constexpr std::chrono::microseconds kSpinBudget{50};

/// One step of a bounded spin: a pause, or sched_yield when ranks outnumber cores.
void relax(WaitStyle style);

/// The longest single sleep: a sleeper whose ringer died mid-ring looks again after it.
inline constexpr std::chrono::seconds kLongestSleep{1};

/// Spins for at most `budget`, until `ready()`; reads the clock after every 16 pauses or after every yield. One yield
/// may give the core away for longer than the budget, and a thread that slept right after it would pay for a wake-up
/// with every chunk. So up to 16 yields are made, within ten budgets in case the neighbours are not ranks and keep the
/// core. Returns true if ready.
template <typename Ready>
bool spin(WaitStyle style, std::chrono::nanoseconds budget, Ready&& ready) {
  constexpr int kSteps = 16;
  const auto end = SteadyClock::now() + budget;
  const auto last_yield = style == WaitStyle::kYield ? end + 9 * budget : end;
  for (int step = 1;; ++step) {
    if (ready()) return true;
    relax(style);
    if (style == WaitStyle::kPause && step % kSteps != 0) continue;
    if (SteadyClock::now() >= (step < kSteps ? last_yield : end)) return ready();
  }
}

/// Spins for at most `budget`, then sleeps on `bell`, until `ready()` or the deadline. Returns true if ready.
/// Only the bell's owner calls it. `ready` may be called any number of times and must read sequentially consistently
/// what the ringer stores before it rings.
template <typename Ready>
bool spin_then_sleep(Bell& bell, WaitStyle style, std::chrono::nanoseconds budget, Deadline deadline, Ready&& ready) {
  if (spin(style, budget, ready)) return true;
  while (!deadline.passed()) {
    FutexBell words(bell, deadline.left(kLongestSleep));
    if (bell_steps::sleep(words, ready)) return true;
  }
  return ready();
}

}  // namespace rueda::core
