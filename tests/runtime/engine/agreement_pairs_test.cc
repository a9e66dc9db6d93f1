// The sets in which one rank sends to another.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/runtime/engine/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

/// As the two ranks call the set in which `sender` sends to `receiver`.
void ask_for_pair(World& world, int rank, int sender, int receiver) {
  world.participant(rank).add_set(pair_number(rank, sender, receiver),
                                  {std::min(sender, receiver), std::max(sender, receiver)},
                                  pair_name(sender, receiver));
}

uint64_t submit_to_pair(World& world, int rank, int sender, int receiver, const std::string& name) {
  Request request = World::tensor(name);
  request.set = pair_number(rank, sender, receiver);
  return world.submit(rank, std::move(request));
}

}  // namespace

TEST_CASE("names of pairs are told from all others, and either rank has numbers of its own for them") {
  CHECK(pair_of(pair_name(3, 12)) == std::pair(3, 12));
  for (const char* name : {"", "w", "rueda.send.", "rueda.send.1", "rueda.send.1.", "rueda.send.1.1",
                           "rueda.send.1.2.3", "rueda.send.-1.2", "rueda.send.01.2", "rueda.send.1.2 "}) {
    INFO(name);
    CHECK_FALSE(pair_of(name));
  }
  CHECK(pair_number(3, 3, 12) != pair_number(3, 12, 3));
  CHECK(print_place(pair_number(3, 3, 12)) == "to rank 12");
  CHECK(print_place(pair_number(12, 3, 12)) == "from rank 3");
  CHECK(print_place(2) == "in process set 2");
}

TEST_CASE("the set of a pair is there for both when one has asked, and one operation more or less does not end it") {
  World world(3);
  ask_for_pair(world, 1, 1, 2);
  const uint64_t given_up = submit_to_pair(world, 1, 1, 2, "a");
  world.participant(1).abandon(given_up, "given up");  // the set is not made yet
  world.exchange();
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.sentence() == "given up: submitted by rank 1 (host a), not by rank 2 (host a)");
  CHECK(world.all<SetEvent>(2).size() == 1);
  CHECK(world.all<SetEvent>(0).empty());
  ask_for_pair(world, 2, 1, 2);
  submit_to_pair(world, 2, 1, 2, "a");
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.sentence() == world.errors(1).front().status.sentence());
  for (const int rank : {2, 1}) submit_to_pair(world, rank, 1, 2, "a");
  world.exchange();
  CHECK(world.all<SetEvent>(2).size() == 1);
  for (const int rank : {1, 2}) CHECK(world.batches(rank).size() == 1);
  CHECK(world.broken.ok());
}

TEST_CASE("a pair whose other rank has left is told so") {
  World world(3);
  world.participant(2).goodbye();
  world.exchange();
  ask_for_pair(world, 1, 1, 2);
  submit_to_pair(world, 1, 1, 2, "a");
  world.exchange();
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.code() == Code::kShutDown);
  CHECK(world.broken.ok());
}
