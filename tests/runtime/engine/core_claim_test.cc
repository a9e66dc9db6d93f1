#include "runtime/engine/core_claim.h"

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
