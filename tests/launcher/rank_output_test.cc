// What hvdrun keeps of ranks that have ended. In an elastic job workers come and go for weeks.

#include "launcher/rank_output.h"

#include <malloc.h>

#include <catch2/catch.hpp>

using namespace rueda::core::launcher;

TEST_CASE("a rank that has ended without a word leaves nothing in memory") {
  constexpr int kRanks = 10000;
  EventLoop loop;
  RankOutput output(loop, 0, Timestamps::kOff, [] {});
  const auto used = [] { return static_cast<double>(mallinfo2().uordblks); };
  const double before = used();
  for (int rank = 0; rank < kRanks; ++rank) {
    REQUIRE(output.grow(rank + 1).ok());
    for (const int stream : {1, 2}) output.take(rank, stream, {});
    output.forget_errors(rank);
  }
  CHECK((used() - before) / kRanks < 1.0);
  CHECK(output.empty());
}
