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

TEST_CASE("slots of a host that comes back to the list do not rest any more, and its failures still count") {
  const std::vector<HostSlots> both = {{"a", 1}, {"b", 1}};
  HostRoster roster(both, {3, milliseconds(60000), std::nullopt}, 7);
  const auto from = [&roster] { return roster.slots()[1].from.count(); };
  CHECK(roster.charge("b", 0, milliseconds(100)).empty());
  CHECK(from() == 2100);
  roster.list(both);
  CHECK(from() == 2100);
  roster.list({{"a", 1}});
  roster.list(both);
  CHECK(from() == 0);
  CHECK(roster.charge("b", 0, milliseconds(200)).empty());
  CHECK(from() == 4200);
  CHECK_THAT(roster.charge("b", 0, milliseconds(300)), Contains("host b gets no more workers"));
}
