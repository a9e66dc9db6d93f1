// When the coordinator leaves callers alone.
#include "runtime/engine/burst.h"

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

using std::chrono::microseconds;

TEST_CASE("operations that come one by one make no burst") {
  Burst burst;
  SteadyClock::time_point now = SteadyClock::now();
  for (int i = 0; i < 100; ++i) {
    CHECK(burst.look(1, now).count() == 0);
    now += 2 * Burst::kGap;
  }
}

TEST_CASE("the first look finds no burst, however much there is") {
  Burst burst;
  CHECK(burst.look(1000, SteadyClock::now()).count() == 0);
}

TEST_CASE("many operations that come closer than the gap make a burst, however many looks found them") {
  const size_t each = GENERATE(size_t{1}, size_t{3}, size_t{5}, Burst::kMany);
  Burst burst;
  SteadyClock::time_point now = SteadyClock::now();
  burst.look(1, now);
  size_t found = 0;
  while (found + each < Burst::kMany) {
    now += each * Burst::kGap - microseconds(1);
    found += each;
    CHECK(burst.look(each, now).count() == 0);
    CHECK(burst.look(0, now).count() == 0);  // a peer rang
  }
  CHECK(burst.look(each, now += microseconds(1)) == Burst::kNap);
}

TEST_CASE("few operations make no burst, even if they come at once") {
  Burst burst;
  const SteadyClock::time_point now = SteadyClock::now();
  burst.look(1, now);
  CHECK(burst.look(Burst::kMany - 1, now + microseconds(1)).count() == 0);
}

TEST_CASE("a burst goes on as long as what comes during a nap comes close") {
  Burst burst;
  SteadyClock::time_point now = SteadyClock::now();
  burst.look(1, now);
  REQUIRE(burst.look(Burst::kMany, now += microseconds(10)) == Burst::kNap);
  CHECK(burst.look(101, now += Burst::kNap) == Burst::kNap);
  CHECK(burst.look(10, now += Burst::kNap).count() == 0);
  CHECK(burst.look(10, now += microseconds(40)).count() == 0);  // another one begins
  CHECK(burst.look(10, now += microseconds(40)) == Burst::kNap);
  CHECK(burst.look(1, now += microseconds(1)).count() == 0);  // a caller has ended the nap, and goes on slowly
}

TEST_CASE("operations that come slowly behind a long burst are not taken for more of it") {
  Burst burst;
  SteadyClock::time_point now = SteadyClock::now();
  burst.look(1, now);
  REQUIRE(burst.look(100'000, now += Burst::kNap) == Burst::kNap);
  CHECK(burst.look(1, now += Burst::kNap).count() == 0);
}

}  // namespace
}  // namespace rueda::core
