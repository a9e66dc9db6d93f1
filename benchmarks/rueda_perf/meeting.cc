// Round trips between two processes through a page that they share: of a cache line while both spin, and of two
// wake-ups while both sleep. The first says how far apart the cores are, the second what any hand-over to a sleeping
// rank must cost.
#include "benchmarks/rueda_perf/meeting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "benchmarks/rueda_perf/timing.h"
#include "runtime/net/distance.h"

namespace rueda::perf {
namespace {

constexpr uint32_t kFutexTrips = 200;  // the median of as many
constexpr std::chrono::microseconds kTimeToFallAsleep{20};
constexpr std::chrono::seconds kFutexBudget{2};

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

enum class Arrival { kAwake, kSlept, kNever };

// Returns once the word holds `value`; kNever if it does not by `end`. Naps are short, so that a lost wake-up ends.
Arrival await(std::atomic<uint32_t>& word, uint32_t value, Clock::time_point end) {
  const timespec nap{0, 100'000'000};
  bool slept = false;
  for (;;) {
    const uint32_t seen = word.load();
    if (seen == value) return slept ? Arrival::kSlept : Arrival::kAwake;
    if (Clock::now() >= end) return Arrival::kNever;
    slept = futex(word, FUTEX_WAIT, seen, &nap) == 0 || slept;
  }
}

// Stores and wakes; returns whether the other side slept on the word.
bool publish(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value);
  return futex(word, FUTEX_WAKE, 1, nullptr) == 1;
}

void spin(std::chrono::microseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

}  // namespace

double Meeting::line_ns() {
  const auto ping_pong_side = side_ == 0 ? core::PingPongSide::kFirst : core::PingPongSide::kSecond;
  const auto line = core::line_round_trip(own().line, other().line, ++token_, ping_pong_side, core::kThoroughPingPong);
  return line ? static_cast<double>(line->count()) : 0;
}

// Side 0 counts the trips in which both sides slept: a word that changes before its reader is asleep costs no
// hand-over.
double Meeting::futex_us() {
  const Clock::time_point end = Clock::now() + kFutexBudget;
  const uint32_t first = trips_;
  trips_ += kFutexTrips;
  std::vector<double> times;
  for (uint32_t value = first + 1; value <= first + kFutexTrips; ++value) {
    if (side_ == 1) {
      if (await(other().futex, value, end) == Arrival::kNever) return 0;
      publish(own().futex, value);
      continue;
    }
    spin(kTimeToFallAsleep);
    const Clock::time_point begin = Clock::now();
    const bool woke = publish(own().futex, value);
    const Arrival arrival = await(other().futex, value, end);
    if (arrival == Arrival::kNever) return 0;
    if (woke && arrival == Arrival::kSlept) times.push_back(microseconds(Clock::now() - begin));
  }
  return times.empty() ? 0 : quantiles(times).p50;
}

}  // namespace rueda::perf
