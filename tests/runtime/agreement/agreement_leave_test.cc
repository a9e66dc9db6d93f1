#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

TEST_CASE("what all members proposed before a goodbye runs everywhere, whatever the credit") {
  World world(3);
  for (int i = 0; i < 4; ++i) {
    world.submit_all(World::tensor("w" + std::to_string(i)));
    world.up();
    world.arbiter.plan();
  }
  world.participant(2).goodbye();
  world.exchange();
  for (int rank = 0; rank < 3; ++rank) {
    size_t operations = 0;
    for (const BatchEvent& batch : world.batches(rank)) operations += batch.tickets.size();
    CHECK(operations == 4);
    REQUIRE(std::holds_alternative<GoodbyeEvent>(world.seen(rank).back()));
    CHECK(std::get<GoodbyeEvent>(world.seen(rank).back()).rank == 2);
  }
}

TEST_CASE("what needs a rank that has left fails and names it, now and later") {
  World world(4);
  for (int rank = 0; rank < 3; ++rank) world.submit(rank, World::tensor("x"));
  world.participant(3).goodbye();
  world.exchange();
  const std::string expected = "rank 3 (host b) has shut down; allreduce \"x\" needs it";
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(world.errors(rank).size() == 1);
    CHECK(world.errors(rank).front().status.code() == Code::kShutDown);
    CHECK(world.errors(rank).front().status.rank() == 3);
    CHECK(world.errors(rank).front().status.sentence() == expected);
    world.submit(rank, World::tensor("x"));
    CHECK(world.errors(rank).size() == 2);
  }
  world.submit(3, World::tensor("x"));
  CHECK(world.errors(3).front().status.sentence() == "rank 3 (host b) has shut down");
}

TEST_CASE("what ran before a rank left is told to be a matter of uneven steps") {
  World world(3);
  world.submit_all(World::tensor("x"));
  world.start_all();
  world.exchange();
  for (const int rank : {0, 1}) {
    world.submit(rank, World::tensor("x"));
    world.submit(rank, World::tensor("new"));
  }
  world.participant(2).goodbye();
  world.exchange();
  const std::string left = "rank 2 (host a) has shut down; ";
  for (const int rank : {0, 1}) {
    REQUIRE(world.errors(rank).size() == 2);
    CHECK(world.errors(rank)[0].status.sentence() ==
          left +
              "allreduce \"x\" needs it, and ran before: if ranks have "
              "different numbers of steps, those with fewer end with a join");
    CHECK(world.errors(rank)[1].status.sentence() == left + "allreduce \"new\" needs it");
  }
}

TEST_CASE("a goodbye leaves sets without that rank alone") {
  AgreementConfig config = World::config_of(3);
  config.sets.push_back({1, {0, 1}, {2}, true});
  World world(config);
  world.participant(2).goodbye();
  world.exchange();
  Request request = World::tensor("x");
  request.set = 1;
  for (int rank = 0; rank < 2; ++rank) world.submit(rank, request);
  world.exchange();
  CHECK(world.batches(1).size() == 1);
  CHECK(world.errors(1).empty());
}

TEST_CASE("rank 0's goodbye ends every set") {
  AgreementConfig config = World::config_of(3);
  config.sets.push_back({1, {1, 2}, {2}, true});
  World world(config);
  Request request = World::tensor("x");
  request.set = 1;
  for (int rank = 1; rank < 3; ++rank) world.submit(rank, request);
  request.name = "y";
  world.submit(2, request);
  world.up();
  world.participant(0).goodbye();
  world.exchange();
  CHECK(world.batches(2).size() == 1);
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.code() == Code::kShutDown);
  world.submit(1, request);
  CHECK(world.errors(1).size() == 1);
}

TEST_CASE("whoever leaves behind rank 0's goodbye is heard, so that nobody takes its end for a death") {
  World world(3);
  world.participant(0).goodbye();
  world.exchange();
  world.participant(2).goodbye();  // which has heard rank 0's
  world.exchange();
  for (const int rank : {0, 1, 2}) {
    const auto& seen = world.seen(rank);
    const auto leaver = [](const Event& event) { return std::get<GoodbyeEvent>(event).rank; };
    REQUIRE(seen.size() == 2);
    CHECK(leaver(seen.front()) == 0);
    CHECK(leaver(seen.back()) == 2);
  }
}

TEST_CASE("a rank's credits still count after its goodbye, and its second goodbye does nothing") {
  World world(2);
  world.submit_all(World::tensor("w1"));
  world.participant(0).goodbye();
  world.participant(0).goodbye();
  world.exchange();
  world.start_all();
  world.exchange();
  CHECK(world.broken.ok());
  CHECK(world.all<GoodbyeEvent>(1).size() == 1);
}

TEST_CASE("abandon asks for an error with the given sentence on all ranks") {
  World world(2);
  const uint64_t ticket = world.submit(0, World::tensor("w1"));
  world.exchange();
  world.participant(0).abandon(ticket, "nobody waits for w1 any more");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.code() == Code::kTimeout);
  CHECK(world.errors(0).front().status.sentence() ==
        "nobody waits for w1 any more: submitted by rank 0 (host a), not by rank 1 (host a)");
  world.submit(1, World::tensor("w1"));
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.sentence() ==
        "nobody waits for w1 any more: submitted by rank 0 (host a), not by rank 1 (host a)");
}

TEST_CASE("abandon reaches what is agreed and waits for credit, but nothing that is in a batch") {
  World world(2);
  for (int i = 0; i < 3; ++i) {
    world.submit_all(World::tensor("w" + std::to_string(i)));
    world.up();
    world.arbiter.plan();
  }
  world.participant(0).abandon(1, "too late: it is in a batch");
  world.participant(0).abandon(3, "in time");
  world.exchange();
  CHECK(world.batches(1).size() == 2);
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().tickets == std::vector<uint64_t>{1003});
  CHECK(world.errors(1).front().status.sentence() == "in time");
  world.participant(0).abandon(77, "no such ticket");
  CHECK(world.exchange() == 0);
}

TEST_CASE("abandon counts occurrences: of two in flight it ends the one that was meant") {
  World world(2);
  const uint64_t first = world.submit(0, World::tensor(""));
  world.submit(0, World::tensor(""));
  world.participant(0).abandon(first, "given up");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets == std::vector<uint64_t>{first});
  world.submit(1, World::tensor(""));
  world.submit(1, World::tensor(""));
  world.exchange();
  CHECK(world.errors(1).size() == 1);
  CHECK(world.batches(1).size() == 1);
}
