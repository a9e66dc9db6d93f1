#include "runtime/net/doorbell.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace rueda::core {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

Deadline patient() { return Deadline::after(seconds(120)); }

/// A word and the bell of whoever waits for it.
struct Side {
  Bell bell;
  alignas(64) std::atomic<uint64_t> word{0};
};

TEST_CASE("two threads that ring each other always wake, spinning or not") {
  const auto budget = GENERATE(microseconds(0), microseconds(5), kSpinBudget);
  const auto style = GENERATE(WaitStyle::kPause, WaitStyle::kYield);
  constexpr uint64_t kRounds = 2000;
  Side ping;
  Side pong;
  const auto await = [&](Side& side, uint64_t round) {
    return spin_then_sleep(side.bell, style, budget, patient(), [&] { return side.word.load() >= round; });
  };
  uint64_t answered = 0;
  std::thread peer([&] {
    for (uint64_t round = 1; round <= kRounds && await(ping, round); ++round) {
      answered = round;
      pong.word.store(round);
      ring(pong.bell);
    }
  });
  uint64_t reached = 0;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    ping.word.store(round);
    ring(ping.bell);
    if (!await(pong, round)) break;
    reached = round;
  }
  peer.join();
  CHECK(reached == kRounds);
  CHECK(answered == kRounds);
  CHECK(ping.bell.asleep.load() == 0);
}

TEST_CASE("one sleeper hears each of several ringers") {
  constexpr size_t kRingers = 3;
  constexpr uint64_t kRounds = 1000;
  Bell bell;
  std::vector<Side> sides(kRingers);  // the word of each ringer, and the bell on which it hears that it was read
  std::vector<std::thread> ringers;
  std::atomic<size_t> finished{0};
  for (auto& side : sides) {
    ringers.emplace_back([&] {
      for (uint64_t round = 1; round <= kRounds; ++round) {
        side.word.store(2 * round - 1);
        ring(bell);
        const auto read = [&] { return side.word.load() == 2 * round; };
        if (!spin_then_sleep(side.bell, WaitStyle::kYield, nanoseconds(0), patient(), read)) return;
      }
      finished.fetch_add(1);
      ring(bell);
    });
  }
  const bool heard_all = spin_then_sleep(bell, WaitStyle::kYield, nanoseconds(0), patient(), [&] {
    for (auto& side : sides) {
      const uint64_t word = side.word.load();
      if (word % 2 == 0) continue;
      side.word.store(word + 1);
      ring(side.bell);
    }
    return finished.load() == kRingers;
  });
  for (auto& ringer : ringers) ringer.join();
  CHECK(heard_all);
}

TEST_CASE("a wait that nobody ends gives up at its deadline") {
  Bell bell;
  const auto before = SteadyClock::now();
  CHECK_FALSE(spin_then_sleep(bell, WaitStyle::kPause, microseconds(10), Deadline::after(milliseconds(20)),
                              [] { return false; }));
  CHECK(SteadyClock::now() - before >= milliseconds(20));
  CHECK(bell.asleep.load() == 0);
}

TEST_CASE("a ring at a bell where nobody sleeps changes nothing, and one for aborts always counts") {
  Bell bell;
  ring(bell);
  CHECK(bell.count.load() == 0);
  ring_always(bell);
  CHECK(bell.count.load() == 1);
}

TEST_CASE("a bell in shared memory wakes another process") {
  void* const memory = ::mmap(nullptr, sizeof(Side), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const side = new (memory) Side;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto rung = [&] { return side->word.load() == 1; };
    ::_exit(spin_then_sleep(side->bell, WaitStyle::kYield, nanoseconds(0), patient(), rung) ? 0 : 1);
  }
  // The child sleeps when it says so: only then is there something to wake.
  spin(WaitStyle::kYield, seconds(60), [&] { return side->bell.asleep.load() == 1; });
  side->word.store(1);
  ring(side->bell);
  int state = 0;
  REQUIRE(::waitpid(child, &state, 0) == child);
  CHECK(WIFEXITED(state));
  CHECK(WEXITSTATUS(state) == 0);
  ::munmap(memory, sizeof(Side));
}

}  // namespace
}  // namespace rueda::core
