#include "runtime/engine/core_claim.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

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

TEST_CASE("a thread that moves may run afterwards where it could before, and hears the same signals") {
  const std::vector<int> before = allowed_cores();
  bool first = false, last = false, nowhere = true, forbidden = true, alike = false;
  int on_last = -1;
  std::vector<int> after, confined;
  std::thread mover([&] {
    sigset_t heard, now;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &heard);
    first = move_thread(before.front());
    last = move_thread(before.back());
    on_last = ::sched_getcpu();
    after = allowed_cores();
    nowhere = move_thread(-1) || move_thread(1 << 20);
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    alike = true;
    for (int signal = 1; signal < 32; ++signal) alike &= sigismember(&heard, signal) == sigismember(&now, signal);
    place_thread("mover", {before.front()});
    forbidden = before.size() > 1 && move_thread(before.back());
    confined = allowed_cores();
  });
  mover.join();
  CHECK(first);
  CHECK(last);
  CHECK(on_last >= before.front());
  CHECK(on_last <= before.back());
  CHECK(after == before);
  CHECK_FALSE(nowhere);
  CHECK(alike);
  CHECK_FALSE(forbidden);
  CHECK(confined == std::vector<int>{before.front()});
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
