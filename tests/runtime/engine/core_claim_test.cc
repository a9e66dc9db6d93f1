#include "runtime/engine/core_claim.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

namespace rueda::core {
namespace {

/// A file that only this test locks.
class LockedFile {
 public:
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  const UniqueFd fd_{::memfd_create("placement", MFD_CLOEXEC)};
};

}  // namespace

TEST_CASE("the first session has its cores, another that wants one of them places nothing") {
  const LockedFile file;
  CoreClaim first({0, 1}, file.path().c_str());
  CHECK(first.cores() == std::vector<int>{0, 1});
  const CoreClaim beside({2, 3}, file.path().c_str());
  CHECK(beside.cores() == std::vector<int>{2, 3});
  CHECK(CoreClaim({1, 4}, file.path().c_str()).cores().empty());
  CHECK(CoreClaim({4, 5}, file.path().c_str()).cores() == std::vector<int>{4, 5});  // one that gave way holds nothing
  first.release();
  CHECK(CoreClaim({0, 1}, file.path().c_str()).cores() == std::vector<int>{0, 1});
}

TEST_CASE("where nothing can be locked, cores are placed on as if nobody else were there") {
  CHECK(CoreClaim({0, 1}, "/nowhere/at/all").cores() == std::vector<int>{0, 1});
}

TEST_CASE("who has no share claims none") {
  const LockedFile file;
  CHECK(CoreClaim({}, file.path().c_str()).cores().empty());
  CHECK(CoreClaim({0}, file.path().c_str()).cores() == std::vector<int>{0});
}

TEST_CASE("a thread that moves is there, and may run afterwards where it could before") {
  const std::vector<int> before = allowed_cores();
  int arrived = 0;
  std::vector<int> after, confined;
  bool nowhere = true, forbidden = true;
  std::thread mover([&] {
    for (int i = 0; i < 100; ++i) {
      const int target = i % 2 == 0 ? before.front() : before.back();
      arrived += move_thread(target) && ::sched_getcpu() == target ? 1 : 0;
    }
    after = allowed_cores();
    nowhere = move_thread(-1) || move_thread(1 << 20);
    place_thread("mover", {before.front()});
    forbidden = before.size() > 1 && move_thread(before.back());
    confined = move_thread(before.front()) ? allowed_cores() : std::vector<int>();
  });
  mover.join();
  CHECK(arrived > 75);  // the kernel may have moved it since; without a move it would be there every second time
  CHECK(after == before);
  CHECK_FALSE(nowhere);
  CHECK_FALSE(forbidden);
  CHECK(confined == std::vector<int>{before.front()});
}

TEST_CASE("a signal handler on a thread that moves finds all its cores") {
  static std::atomic<int> handled{0}, narrow{0};
  static std::atomic<int> cores{0};
  const std::vector<int> before = allowed_cores();
  cores = static_cast<int>(before.size());
  struct sigaction count {};
  struct sigaction old {};
  count.sa_handler = [](int) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) != cores) ++narrow;
    ++handled;
  };
  REQUIRE(::sigaction(SIGUSR2, &count, &old) == 0);
  std::atomic<bool> ready{false}, enough{false};
  std::thread mover([&] {
    ready = true;
    for (int i = 0; !enough; ++i) static_cast<void>(move_thread(i % 2 == 0 ? before.front() : before.back()));
  });
  while (!ready) std::this_thread::yield();
  for (int sent = 0; sent < 2000; ++sent) {
    const int seen = handled;
    ::pthread_kill(mover.native_handle(), SIGUSR2);
    while (handled == seen) std::this_thread::yield();
  }
  enough = true;
  mover.join();
  ::sigaction(SIGUSR2, &old, nullptr);
  CHECK(handled >= 2000);
  CHECK(narrow == 0);
}

TEST_CASE("a thread stays on the core of its visit until it goes home") {
  const std::vector<int> before = allowed_cores();
  std::vector<int> visiting, nowhere, after;
  std::thread visitor([&] {
    CoreVisit visit(before);
    visit.stay_on(1 << 20);
    visit.stay_on(-1);
    nowhere = allowed_cores();
    visit.stay_on(before.back());
    visiting = allowed_cores();
    visit.go_home();
    after = allowed_cores();
  });
  visitor.join();
  CHECK(nowhere == before);
  CHECK(visiting == std::vector{before.back()});
  CHECK(after == before);
}

}  // namespace rueda::core
