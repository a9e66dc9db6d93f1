// Threads that want one mutex at once: each of their steps counts once, and none sleeps for ever.
#include "runtime/base/fast_mutex.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file_text.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

TEST_CASE("a futex mutex is held by one thread at a time") {
  constexpr int kThreads = 4;
  const int64_t steps = scaled_down(200'000);
  FutexMutex mutex;
  int64_t count = 0;  // TSan sees an access without the mutex
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t step = 0; step < steps; ++step) {
        const MutexLock lock(mutex);
        ++count;
        // A holder that gives its core away makes others look in vain, and sleep.
        if (step % 1000 == i) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == kThreads * steps);
}

/// Returns once the thread sleeps: `123 (a name) S ...` in its file of /proc.
void await_sleep(pid_t thread) {
  const std::string file = "/proc/self/task/" + std::to_string(thread) + "/stat";
  while (file_text(file).find(") S ") == std::string::npos) std::this_thread::yield();
}

TEST_CASE("threads that sleep for a futex mutex get it one after the other") {
  FutexMutex mutex;
  std::atomic<int> got{0};
  std::array<std::atomic<pid_t>, 3> sleepers{};
  std::vector<std::thread> threads;
  mutex.lock();
  CHECK_FALSE(mutex.try_lock());
  for (auto& sleeper : sleepers) {
    threads.emplace_back([&] {
      sleeper = ::gettid();
      errno = 0;
      const MutexLock lock(mutex);
      if (errno == 0) ++got;
    });
  }
  for (const auto& sleeper : sleepers) {
    while (sleeper == 0) std::this_thread::yield();
    await_sleep(sleeper);
  }
  CHECK(got == 0);
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  CHECK(got == 3);
  const bool taken = mutex.try_lock();
  CHECK(taken);
  if (taken) mutex.unlock();
}

}  // namespace
}  // namespace rueda::core
