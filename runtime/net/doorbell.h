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
/// alone writes `asleep`; any rank of the host may ring. A ringer that dies between its two last steps leaves the
/// sleeper to the next ring: that of the abort its death raises, at the latest.
struct alignas(64) Bell {
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> asleep{0};
};

/// The steps themselves, over anything with the operations of `FutexBell`, each of which is one atomic step. A test
/// runs this very code over a model of a bell in every interleaving.
namespace bell_steps {

template <typename Words>
void ring(Words& words) {
  if (words.asleep() == 0) return;
  words.add_to_count();
  words.wake();
}

/// One round of going to sleep. True when `ready()` was, false after the wait has returned, for whatever reason.
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
  /// At most the limit, while the count is `seen`. Spurious returns are fine.
  void wait(uint32_t seen);

 private:
  Bell& bell_;
  std::chrono::nanoseconds limit_;
};

/// Call after the sequentially consistent store of the data the sleeper looks for. Any thread of any local process.
/// No system call unless somebody sleeps.
inline void ring(Bell& bell) {
  FutexBell words(bell);
  bell_steps::ring(words);
}
/// Rings whether or not anybody seems asleep: for aborts and shutdown.
void ring_always(Bell& bell);

/// How a thread waits before it sleeps (design: "Sleeping and waking").
enum class WaitStyle { kPause, kYield };
inline constexpr std::chrono::microseconds kSpinBudget{50};

/// One step of a bounded spin: a pause, or sched_yield when ranks outnumber cores.
void relax(WaitStyle style);

/// No sleep is longer, so that a wait whose ringer died mid-ring still looks again.
inline constexpr std::chrono::seconds kLongestSleep{1};

/// Spins for at most `budget`, until `ready()`; the clock is read after every 16 pauses or every yield. A yield gives
/// the core to a neighbour for longer than the budget, and who slept then would pay a wake-up for every chunk: so
/// sixteen of them are made, or as many as ten budgets hold where the neighbours are no ranks and keep the core.
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

/// Spins for at most `budget`, then sleeps on `bell`, until `ready()` or the deadline. True when ready.
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
