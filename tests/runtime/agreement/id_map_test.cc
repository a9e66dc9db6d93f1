#include "runtime/agreement/id_map.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>

#include "tests/sim/random.h"

TEST_CASE("an id map finds what std::map finds, through any order of inserts and erases") {
  rueda::sim::Random random(3);
  rueda::core::IdMap<uint64_t> ids;
  std::map<uint64_t, uint64_t*> expected;
  std::deque<uint64_t> values;
  uint64_t next = 1;
  for (int round = 0; round < 20000; ++round) {
    if (random.below(5) < 3) {
      values.push_back(next);
      ids.insert(next, &values.back());
      expected[next++] = &values.back();
    } else {
      const uint64_t victim = 1 + random.below(next);
      ids.erase(victim);
      expected.erase(victim);
    }
    const uint64_t probe = 1 + random.below(next + 2);
    const auto found = expected.find(probe);
    REQUIRE(ids.find(probe) == (found == expected.end() ? nullptr : found->second));
    REQUIRE(ids.size() == expected.size());
  }
}
