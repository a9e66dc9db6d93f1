#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

TEST_CASE("a group becomes ready whole") {
  World world(2);
  world.submit_group(0, {World::tensor("a"), World::tensor("b"), World::tensor("c")});
  world.exchange();
  world.submit_group(1, {World::tensor("a"), World::tensor("b"), World::tensor("c")});
  world.exchange();
  REQUIRE(world.batches(1).size() == 1);
  CHECK(world.batches(1).front().tickets == std::vector<uint64_t>{1001, 1002, 1003});
}

TEST_CASE("a wrong member fails all members of its group on all ranks with one sentence") {
  World world(2);
  world.submit_group(0, {World::tensor("a"), World::tensor("b", {2})});
  world.submit_group(1, {World::tensor("a"), World::tensor("b", {3})});
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(world.errors(rank).size() == 1);
    CHECK(world.errors(rank).front().tickets.size() == 2);
    CHECK(world.errors(rank).front().status.sentence().find("allreduce \"b\": shape differs") == 0);
    CHECK(world.batches(rank).empty());
  }
}

TEST_CASE("disagreement over who belongs to a group fails every member that any rank named") {
  World world(2);
  world.submit_group(0, {World::tensor("a"), World::tensor("b")});
  world.submit_group(1, {World::tensor("b"), World::tensor("c")});
  world.exchange();
  CHECK(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets.size() == 2);
  CHECK(world.errors(1).front().tickets.size() == 2);
  CHECK(world.errors(0).front().status.sentence().find("allreduce \"b\": group differs") == 0);
  // Neither rank's group names the rest any more, so neither stays behind.
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    world.submit_group(rank, {World::tensor("a"), World::tensor("b"), World::tensor("c")});
  }
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(world.errors(rank).size() == 1);
    REQUIRE(world.batches(rank).size() == 1);
    CHECK(world.batches(rank).front().tickets.size() == 3);
  }
}

TEST_CASE("after groups of different sizes without names, ranks are in step again") {
  World world(2);
  const Request unnamed = World::tensor("");
  world.submit_group(0, {unnamed, unnamed});
  world.submit_group(1, {unnamed, unnamed, unnamed});
  world.exchange();
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) REQUIRE(world.errors(rank).size() == 1);
  const uint64_t first = world.submit(0, unnamed);
  const uint64_t second = world.submit(1, unnamed);
  world.exchange();
  REQUIRE(world.batches(0).size() == 1);
  REQUIRE(world.batches(1).size() == 1);
  CHECK(world.batches(0).front().tickets == std::vector<uint64_t>{first});
  CHECK(world.batches(1).front().tickets == std::vector<uint64_t>{second});
}

TEST_CASE("a rank that comes late to groups that disagree is in step after its own") {
  for (const bool grouped : {true, false}) {
    World world(3);
    world.submit_group(0, {World::tensor("a"), World::tensor("b")});
    world.submit_group(1, {World::tensor("b"), World::tensor("c")});
    world.exchange();
    world.submit_group(0, {World::tensor("d"), World::tensor("e")});  // fails as well, before the third has come
    world.submit_group(1, {World::tensor("e")});
    world.exchange();
    if (grouped) {
      world.submit_group(2, {World::tensor("a"), World::tensor("b")});
      world.submit_group(2, {World::tensor("e")});
    } else {
      for (const char* name : {"a", "b", "c", "d", "e"}) world.submit(2, World::tensor(name));
    }
    world.exchange();
    world.exchange();
    CHECK(world.participant(2).pending_names(9).empty());
    for (int rank = 0; rank < 3; ++rank) {
      world.submit_group(
          rank, {World::tensor("a"), World::tensor("b"), World::tensor("c"), World::tensor("d"), World::tensor("e")});
    }
    world.exchange();
    for (int rank = 0; rank < 3; ++rank) {
      REQUIRE(world.batches(rank).size() == 1);
      CHECK(world.batches(rank).front().tickets.size() == 5);
    }
  }
}

TEST_CASE("a group beside one of its tensors alone fails, and after one more failure ranks are in step") {
  World world(2);
  const std::vector<Request> group{World::tensor("a"), World::tensor("b"), World::tensor("c")};
  world.submit_group(0, group);
  world.submit(1, World::tensor("b"));
  world.exchange();
  world.exchange();
  for (int step = 0; step < 2; ++step) {
    CHECK(world.batches(0).empty());
    for (int rank = 0; rank < 2; ++rank) world.submit_group(rank, group);
    world.exchange();
    world.exchange();
  }
  for (int rank = 0; rank < 2; ++rank) REQUIRE(world.batches(rank).size() == 1);
}

TEST_CASE("groups that disagree on more tensors than a verdict holds leave ranks in step") {
  World world(2);
  std::vector<Request> members;
  for (int i = 0; i < 70'000; ++i) members.push_back(World::tensor("t" + std::to_string(i), {1}));
  world.submit_group(0, members);
  world.submit_group(1, {members.begin(), members.begin() + 3});
  for (int round = 0; round < 4; ++round) world.exchange();
  for (int rank = 0; rank < 2; ++rank) world.submit_group(rank, members);
  for (int round = 0; round < 4; ++round) {
    world.exchange();
    world.start_all();
  }
  CHECK(world.broken.ok());
  size_t done = 0;
  for (const BatchEvent& batch : world.batches(1)) done += batch.tickets.size();
  CHECK(done == members.size());
}

TEST_CASE("a group that comes after one of its members has failed fails at once on all ranks") {
  World world(3);
  const uint64_t ticket = world.submit(0, World::tensor("a"));
  world.exchange();
  world.participant(0).abandon(ticket, "given up");
  world.exchange();
  world.submit_group(1, {World::tensor("a"), World::tensor("b")});
  world.exchange();
  CHECK(world.participant(1).pending_names(9).empty());
  world.submit(2, World::tensor("b"));
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.sentence() ==
        "given up: submitted by rank 0 (host a), not by ranks 1-2 (host a)");
}

TEST_CASE("one rank's group is another rank's single tensor: all of the group fails") {
  World world(2);
  world.submit_group(0, {World::tensor("a"), World::tensor("b")});
  world.submit(1, World::tensor("a"));
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets.size() == 2);
  CHECK(world.errors(0).front().status.sentence().find("rank 0 (host a) sent a group of 2 tensors") !=
        std::string::npos);
  CHECK(world.errors(0).front().status.sentence().find("rank 1 (host a) sent no group") != std::string::npos);
}

TEST_CASE("a group larger than the threshold leaves in consecutive batches") {
  AgreementConfig config = World::config_of(2);
  config.fusion_threshold_bytes = 32;
  World world(config);
  for (int rank = 0; rank < 2; ++rank) {
    world.submit_group(rank, {World::tensor("a"), World::tensor("b"), World::tensor("c"), World::tensor("d", {20})});
    world.submit(rank, World::tensor("later"));
  }
  for (int round = 0; round < 4; ++round) {
    world.exchange();
    world.start_all();
  }
  const std::vector<BatchEvent> batches = world.batches(1);
  REQUIRE(batches.size() == 4);
  CHECK(batches[0].tickets == std::vector<uint64_t>{1001, 1002});
  CHECK(batches[1].tickets == std::vector<uint64_t>{1003});
  CHECK(batches[2].tickets == std::vector<uint64_t>{1004});
  CHECK(batches[3].tickets == std::vector<uint64_t>{1005});
}

TEST_CASE("a group over several frames counts when it is complete") {
  World world(1);
  std::vector<Request> members;
  for (int i = 0; i < 70000; ++i) members.push_back(World::tensor("t" + std::to_string(i), {1}));
  world.submit_group(0, members);
  world.exchange();
  world.start_all();
  world.exchange();
  CHECK(world.broken.ok());
  CHECK(world.up_frames.size() >= 2);
  REQUIRE(world.batches(0).size() == 2);
  CHECK(world.batches(0)[0].tickets.size() + world.batches(0)[1].tickets.size() == 70000);
}

TEST_CASE("a group whose requests do not belong together is refused whole") {
  World world(1);
  std::vector<Request> requests{World::tensor("a"), World::tensor("b")};
  describe_group(requests);
  requests[0].group = 1;
  requests[1].group = 2;
  world.participant(0).submit(requests);
  world.collect(0);
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets.size() == 2);
  CHECK(world.errors(0).front().status.code() == Code::kInvalidArgument);
}
