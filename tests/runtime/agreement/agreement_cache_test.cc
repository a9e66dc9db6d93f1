#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

/// The bytes that one rank sends upward in a step of `count` tensors.
size_t bytes_of_step(World& world, int count) {
  for (int i = 0; i < count; ++i) world.submit_all(World::tensor("layer" + std::to_string(i)));
  world.start_all();
  const size_t before = world.up_frames.size();
  world.exchange();
  size_t bytes = 0;
  for (size_t i = before; i < world.up_frames.size(); ++i) {
    if (world.up_frames[i].first == 1) bytes += world.up_frames[i].second.size();
  }
  return bytes;
}

}  // namespace

TEST_CASE("in the steady state one tensor takes 2 bytes upward and 1,000 take 5") {
  World world(2);
  bytes_of_step(world, 1000);
  bytes_of_step(world, 1000);
  CHECK(bytes_of_step(world, 1000) == 5);
  World small(2);
  bytes_of_step(small, 1);
  CHECK(bytes_of_step(small, 1) == 2);
}

TEST_CASE("changed metadata travels in full once and by number from then on") {
  World world(2);
  const auto step = [&world](int64_t count) {
    world.submit_all(World::tensor("w1", {count}));
    world.start_all();
    const size_t bytes = world.exchange();
    CHECK(world.batches(0).back().metadata.shape == Extents{count});
    return bytes;
  };
  const size_t first = step(100);
  const size_t cached = step(100);
  const size_t changed = step(50);
  const size_t again = step(50);
  CHECK(cached < first);
  CHECK(changed > again);
  CHECK(again <= cached + 2);  // one byte for each rank: the number
  CHECK(world.errors(0).empty());
}

TEST_CASE("ids at rest stay within the capacity, and evicted names go on in full") {
  for (const uint64_t capacity : {0u, 1u, 3u}) {
    AgreementConfig config = World::config_of(2);
    config.cache_capacity = capacity;
    World world(config);
    for (int step = 0; step < 5; ++step) {
      for (int i = 0; i < 6; ++i) world.submit_all(World::tensor("w" + std::to_string(i)));
      world.start_all();
      world.exchange();
    }
    size_t operations = 0;
    for (int round = 0; round < 4; ++round) {
      world.start_all();
      world.exchange();
    }
    for (const BatchEvent& batch : world.batches(1)) operations += batch.tickets.size();
    CHECK(operations == 30);
    // Of the six names of a step, as many as the capacity keep their ids for the next step.
    CHECK(world.participant(1).counts().in_full == 6 + 4 * (6 - capacity));
    CHECK(world.participant(1).counts().by_id == 4 * capacity);
    CHECK(world.errors(1).empty());
    CHECK(world.broken.ok());
  }
}

TEST_CASE("a proposal on its way while its id is evicted counts for the name's next id") {
  AgreementConfig config = World::config_of(2);
  config.cache_capacity = 1;
  World world(config);
  world.submit_all(World::tensor("old"));
  world.exchange();
  // Rank 1 proposes "old" by its id while rank 0 already runs "new" and evicts the id.
  world.submit(1, World::tensor("new"));
  world.submit(0, World::tensor("new"));
  world.up();
  world.submit(1, World::tensor("old"));
  world.arbiter.plan();
  world.up();
  world.down();
  world.start_all();
  world.exchange();
  CHECK(world.participant(1).pending_names(9) == std::vector<std::string>{"old"});
  world.submit(0, World::tensor("old"));
  world.exchange();
  CHECK(world.batches(0).size() == 3);
  CHECK(world.batches(1).back().tickets == std::vector<uint64_t>{1003});
  CHECK(world.broken.ok());
}

TEST_CASE("an id with an error owed is not evicted") {
  AgreementConfig config = World::config_of(2);
  config.cache_capacity = 0;
  World world(config);
  const uint64_t ticket = world.submit(0, World::tensor("w1"));
  world.participant(0).abandon(ticket, "given up");
  world.exchange();
  world.submit_all(World::tensor("w2"));
  world.exchange();
  world.submit(1, World::tensor("w1"));
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.sentence() == "given up: submitted by rank 0 (host a), not by rank 1 (host a)");
  world.submit_all(World::tensor("w1"));
  world.start_all();
  world.exchange();
  CHECK(world.batches(1).size() == 2);
}
