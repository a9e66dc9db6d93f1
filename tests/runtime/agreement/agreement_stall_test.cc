// Who waits for whom, as rank 0's half of agreement sees it: the clock is handed in.
#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

namespace rueda::core::test {
namespace {

using namespace std::chrono_literals;

SteadyClock::time_point at(std::chrono::seconds time) { return SteadyClock::time_point(1000s + time); }

Request joining() {
  Request join;
  join.metadata.kind = OpKind::kJoin;
  return join;
}

}  // namespace

TEST_CASE("an operation that some members have proposed and others not is stalled, and ages from the first look") {
  World world(4);
  for (const int rank : {0, 2}) world.submit(rank, World::tensor("w"));
  world.exchange();
  CHECK(world.arbiter.stalled(at(0s)).at(0).age == 0s);
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(31s));
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].what == "allreduce \"w\"");
  CHECK(stalled[0].set == kGlobalSet);
  CHECK(stalled[0].have == std::vector<int>{0, 2});
  CHECK(stalled[0].lack == std::vector<int>{1, 3});
  CHECK(stalled[0].age == 31s);
}

TEST_CASE("what all members have proposed is not stalled, and neither is what failed") {
  World world(2);
  world.submit_all(World::tensor("w"));
  const uint64_t ticket = world.submit(0, World::tensor("given up"));
  world.exchange();
  CHECK(world.arbiter.stalled(at(0s)).size() == 1);
  world.participant(0).abandon(ticket, "given up");
  world.exchange();
  CHECK(world.arbiter.stalled(at(1s)).empty());
}

TEST_CASE("each call of a name ages by itself") {
  World world(2);
  world.submit(0, World::tensor("w"));
  world.exchange();
  static_cast<void>(world.arbiter.stalled(at(0s)));
  world.submit(1, World::tensor("w"));
  world.exchange();
  CHECK(world.arbiter.stalled(at(50s)).empty());
  world.submit(1, World::tensor("w"));
  world.exchange();
  CHECK(world.arbiter.stalled(at(60s)).at(0).age == 0s);
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(70s));
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].age == 10s);
  CHECK(stalled[0].have == std::vector<int>{1});
}

TEST_CASE("unnamed operations are told apart by their number") {
  World world(2);
  for (int i = 0; i < 2; ++i) world.submit(0, World::tensor(""));
  world.exchange();
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(0s));
  REQUIRE(stalled.size() == 2);
  CHECK(stalled[0].what == "allreduce #0");
  CHECK(stalled[1].what == "allreduce #1");
}

TEST_CASE("nobody waits for a rank that has joined") {
  World world(3);
  world.submit(1, joining());
  world.submit(0, World::tensor("w"));
  world.exchange();
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(0s));
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].have == std::vector<int>{0});
  CHECK(stalled[0].lack == std::vector<int>{2});
}

TEST_CASE("a join that waits while nothing is agreed in its set is stalled, and says who has joined and who has not") {
  World world(3);
  world.submit(0, joining());
  world.exchange();
  CHECK(world.arbiter.stalled(at(0s)).at(0).age == 0s);
  const std::vector<Stalled> first = world.arbiter.stalled(at(10s));
  REQUIRE(first.size() == 1);
  CHECK(first[0].kind == StallKind::kJoin);
  CHECK(first[0].what == "join");
  CHECK(first[0].of.empty());
  CHECK(first[0].age == 10s);
  CHECK(first[0].have == std::vector<int>{0});
  CHECK(first[0].lack == std::vector<int>{1, 2});
  world.submit(1, joining());  // whose coming is progress
  world.exchange();
  const std::vector<Stalled> second = world.arbiter.stalled(at(20s));
  REQUIRE(second.size() == 1);
  CHECK(second[0].age == 0s);
  CHECK(second[0].have == std::vector<int>{0, 1});
  CHECK(second[0].lack == std::vector<int>{2});
  world.submit(2, joining());
  world.exchange();
  CHECK(world.arbiter.stalled(at(30s)).empty());
}

TEST_CASE("a join is not stalled while ranks with more data agree on operations, nor where an operation waits") {
  World world(3);
  world.submit(0, joining());
  world.exchange();
  for (int second = 0; second < 100; second += 10) {
    CHECK(world.arbiter.stalled(at(std::chrono::seconds(second))).at(0).age == 0s);
    for (const int rank : {1, 2}) world.submit(rank, World::tensor("w" + std::to_string(second)));
    world.exchange();
    world.start_all();
    world.exchange();
  }
  world.submit(1, World::tensor("late"));
  world.exchange();
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(100s));
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].kind == StallKind::kOperation);
  CHECK(stalled[0].lack == std::vector<int>{2});
}

TEST_CASE("an operation that is given up says who had submitted it and who had not") {
  World world(4);
  const uint64_t ticket = world.submit(2, World::tensor("w"));
  world.submit(0, World::tensor("w"));
  world.exchange();
  world.participant(2).abandon(ticket, "\"w\" took too long");
  world.exchange();
  for (const int rank : {0, 2}) {
    const std::vector<ErrorEvent> errors = world.errors(rank);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].status.code() == Code::kTimeout);
    CHECK(errors[0].status.sentence() ==
          "\"w\" took too long: submitted by rank 0 (host a), rank 2 (host a), not by rank 1 "
          "(host a), rank 3 (host b)");
  }
}

TEST_CASE("a set that not all members have asked for is told, as no operation") {
  World world(3);
  world.participant(0).add_set(1, {0, 2}, "pair");
  world.exchange();
  static_cast<void>(world.arbiter.stalled(at(0s)));
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(5s));
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].what == "the making of process set \"pair\" (rank 0, rank 2)");
  CHECK(stalled[0].kind == StallKind::kSet);
  CHECK(stalled[0].have == std::vector<int>{0});
  CHECK(stalled[0].lack == std::vector<int>{2});
  CHECK(stalled[0].age == 5s);
  world.participant(2).add_set(1, {0, 2}, "pair");
  world.exchange();
  CHECK(world.arbiter.stalled(at(6s)).empty());
}

TEST_CASE("an operation of a set is reported with the set's name and members, whatever ranks call the set") {
  World world(4);
  for (const int rank : {0, 1, 3}) world.participant(rank).add_set(static_cast<SetId>(40 + rank), {0, 1, 3}, "trio");
  world.participant(0).add_set(50, {0, 1}, "");
  world.participant(1).add_set(51, {0, 1}, "");
  world.exchange();
  Request request = World::tensor("w");
  request.set = 41;
  const uint64_t ticket = world.submit(1, request);
  request.set = 51;
  world.submit(1, request);
  world.exchange();
  const std::vector<Stalled> stalled = world.arbiter.stalled(at(0s));
  REQUIRE(stalled.size() == 2);
  CHECK(stalled[0].what == "allreduce \"w\"");
  CHECK(stalled[0].of == " of process set \"trio\" (ranks 0-1, rank 3)");
  CHECK(stalled[1].of == " of the process set of ranks 0-1");
  CHECK(world.participant(1).of_set(41) == stalled[0].of);
  CHECK(world.participant(1).of_set(kGlobalSet).empty());
  world.participant(1).abandon(ticket, "\"w\"" + world.participant(1).of_set(41) + " took too long");
  world.exchange();
  CHECK(world.errors(1).at(0).status.sentence() ==
        "\"w\" of process set \"trio\" (ranks 0-1, rank 3) took too long: submitted by rank 1 (host a), not by rank 0 "
        "(host a), rank 3 (host b)");
}

TEST_CASE("what members of a set sent differently is an error that names the set") {
  World world(2);
  for (const int rank : {0, 1}) world.participant(rank).add_set(static_cast<SetId>(40 + rank), {0, 1}, "pair");
  world.exchange();
  for (const int rank : {0, 1}) {
    Request request = World::tensor("w", {rank + 1});
    request.set = static_cast<SetId>(40 + rank);
    world.submit(rank, request);
  }
  world.exchange();
  CHECK(world.errors(0).at(0).status.sentence() ==
        "allreduce \"w\" of process set \"pair\" (ranks 0-1): shape differs: rank 0 (host a) sent [1], rank 1 (host a) "
        "sent [2]");
}

TEST_CASE("after a goodbye nobody waits for the set any more") {
  World world(2);
  world.submit(0, World::tensor("w"));
  world.exchange();
  world.participant(1).goodbye();
  world.exchange();
  CHECK(world.arbiter.stalled(at(0s)).empty());
}

}  // namespace rueda::core::test
