#include "runtime/net/bell_bridge.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

namespace rueda::core {
namespace {

/// A thread that sleeps where only `wake` reaches it, as in an event loop.
class Loop {
 public:
  void wake() {
    MutexLock lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  void sleep() {
    MutexLock lock(mutex_);
    while (!woken_) changed_.wait(mutex_);
    woken_ = false;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool woken_ RUEDA_GUARDED_BY(mutex_) = false;
};

TEST_CASE("a thread asleep in its loop hears every ring of its bell") {
  constexpr uint64_t kRounds = 2000;
  Bell bell;
  Loop loop;
  std::atomic<uint64_t> word{0};
  std::atomic<uint64_t> heard{0};
  std::thread ringer([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      word.store(round);
      ring(bell);
      while (heard.load() < round) std::this_thread::yield();
    }
  });
  {
    BellBridge bridge(bell, [&] { loop.wake(); });
    REQUIRE(bridge.start().ok());
    FutexBell words(bell);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (word.load() < round) {
        const uint32_t seen = words.count();
        words.store_asleep(1);
        bridge.arm(seen);
        // Who does not look again here sleeps through the ring that came just before.
        if (word.load() < round) loop.sleep();
        bridge.disarm();
        words.store_asleep(0);
      }
      heard.store(round);
    }
  }
  ringer.join();
  CHECK(heard.load() == kRounds);
}

TEST_CASE("a bridge that nobody rings ends at once") {
  Bell bell;
  for (int i = 0; i < 50; ++i) {
    BellBridge bridge(bell, [] {});
    REQUIRE(bridge.start().ok());
    if (i % 2 == 0) bridge.arm(bell.count.load());
  }
  CHECK(bell.asleep.load() == 0);
}

}  // namespace
}  // namespace rueda::core
