// The hosts of an elastic job, with times that the test gives.

#include "launcher/host_roster.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

TEST_CASE("a blacklisted host rests MIN*2^n and up to MIN more, at most MAX") {
  HostRoster roster({{"a", 1}, {"b", 1}},
                    {1, milliseconds(60000), BlacklistRules::Cooldown{milliseconds(1000), milliseconds(5000)}}, 7);
  const std::vector<std::pair<int, int>> ranges = {{2000, 3000}, {4000, 5000}, {5000, 5000}};
  milliseconds now{0};
  for (const auto& [least, most] : ranges) {
    CHECK_THAT(roster.charge("a", 0, now), Contains("host a gets no more workers for "));
    CHECK_FALSE(roster.usable("a", 0));
    REQUIRE(roster.next_cool());
    CHECK((*roster.next_cool() - now).count() >= least);
    CHECK((*roster.next_cool() - now).count() <= most);
    now = *roster.next_cool();
    roster.cool(now);
    CHECK(roster.usable("a", 0));
  }
}
