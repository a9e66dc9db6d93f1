#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

uint64_t join(World& world, int rank, SetId set = kGlobalSet) {
  Request request;
  request.set = set;
  request.metadata.kind = OpKind::kJoin;
  return world.submit(rank, request);
}

Request with_op(const std::string& name, ReduceOp op) {
  Request request = World::tensor(name, {3});
  request.metadata.op = op;
  return request;
}

Request of_kind(OpKind kind, const std::string& name = {}) {
  Request request = World::tensor(name, {});
  request.metadata.kind = kind;
  if (kind == OpKind::kBroadcast) request.metadata.root = 0;
  return request;
}

/// The ticket that a rank has in its newest batch, first operation.
uint64_t newest_ticket(World& world, int rank) { return world.batches(rank).back().tickets.front(); }

}  // namespace

TEST_CASE("a rank that has joined takes part in what it knows nothing of, with its sizes") {
  for (const bool cached : {false, true}) {
    World world(3);
    if (cached) {
      world.submit_all(World::tensor("w", {5, 2}));
      world.exchange();
      world.start_all();
    }
    join(world, 1);
    world.submit(0, World::tensor("w", {5, 2}));
    world.submit(2, World::tensor("w", {5, 2}));
    world.exchange();
    INFO("cached: " << cached);
    for (int rank = 0; rank < 3; ++rank) {
      const BatchEvent batch = world.batches(rank).back();
      CHECK(batch.contributors == 2);
      CHECK(batch.counts == std::vector<int64_t>{10});
      CHECK((batch.tickets.front() == kNoTicket) == (rank == 1));
    }
    CHECK(world.broken.ok());
  }
}

TEST_CASE("what a rank proposed before it joined still has its contribution, and is not fused with what has not") {
  World world(2);
  for (int i = 0; i < 3; ++i) {
    world.submit_all(World::tensor("full" + std::to_string(i)));
    world.exchange();  // two leave, one waits for credit
  }
  const uint64_t mine = world.submit(1, World::tensor("w"));
  join(world, 1);
  world.submit(0, World::tensor("w"));
  world.submit(0, World::tensor("v"));
  world.exchange();
  world.start_all();
  world.exchange();
  world.start_all();
  world.exchange();
  std::vector<BatchEvent> batches = world.batches(1);
  REQUIRE(batches.size() == 4);
  CHECK(batches[2].tickets.back() == mine);
  CHECK(batches[2].contributors == 0);
  CHECK(batches[3].tickets == std::vector<uint64_t>{kNoTicket});
  CHECK(batches[3].contributors == 1);
}

TEST_CASE("a rank that has joined is told the rows of what is dealt out") {
  World world(3);
  join(world, 1);
  for (const int rank : {0, 2}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6, 2, 5}, {4}, {0, 3}, {2, 0}}) {
      Request request = World::tensor("w" + std::to_string(shape.size()) + std::to_string(shape[0]), shape);
      request.metadata.kind = OpKind::kReducescatter;
      world.submit(rank, request);
    }
  }
  world.exchange();
  std::vector<int64_t> counts, rows;
  for (const BatchEvent& batch : world.batches(1)) {
    counts.insert(counts.end(), batch.counts.begin(), batch.counts.end());
    rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
  }
  CHECK(counts == std::vector<int64_t>{60, 4, 0, 0});
  CHECK(rows == std::vector<int64_t>{10, 1, 1, 1});
  CHECK(world.broken.ok());
}

TEST_CASE("a reduce whose root has joined fails on the others, one to another goes on") {
  World world(3);
  join(world, 1);
  for (const int32_t root : {1, 2}) {
    for (const int rank : {0, 2}) {
      Request request = World::tensor("to " + std::to_string(root));
      request.metadata.kind = OpKind::kReduce;
      request.metadata.root = root;
      world.submit(rank, request);
    }
  }
  world.exchange();
  for (const int rank : {0, 2}) {
    REQUIRE(world.errors(rank).size() == 1);
    CHECK(world.errors(rank).front().status.sentence() ==
          "reduce \"to 1\": rank 1 (host a) has joined, and the result would go to its root, rank 1");
    REQUIRE(world.batches(rank).size() == 1);
    CHECK(world.batches(rank).front().contributors == 2);
  }
}

TEST_CASE("a join ends when all members have joined and says who was the last") {
  for (const int last : {0, 1, 2}) {
    World world(3);
    std::vector<uint64_t> tickets(3);
    for (int i = 1; i <= 3; ++i) {
      const int rank = (last + i) % 3;
      CHECK(world.all<JoinEvent>(last).empty());
      tickets[static_cast<size_t>(rank)] = join(world, rank);
      world.exchange();
    }
    for (int rank = 0; rank < 3; ++rank) {
      REQUIRE(world.all<JoinEvent>(rank).size() == 1);
      CHECK(world.all<JoinEvent>(rank).front().last == last);
      CHECK(world.all<JoinEvent>(rank).front().ticket == tickets[static_cast<size_t>(rank)]);
    }
  }
}

TEST_CASE("when a join ends, counters of named and unnamed operations are equal on all members") {
  World world(3);
  for (int step = 0; step < 4; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      if (step > rank) continue;  // rank r takes r + 1 steps
      world.submit(rank, World::tensor("w"));
      world.submit(rank, World::tensor(""));
    }
    if (step < 3) join(world, step);
    world.exchange();
    world.start_all();
    world.exchange();
    world.start_all();
    world.exchange();
  }
  for (int rank = 0; rank < 3; ++rank) REQUIRE(world.all<JoinEvent>(rank).size() == 1);
  const size_t before = world.batches(0).size();
  for (const char* name : {"w", ""}) world.submit_all(World::tensor(name));
  world.exchange();
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(world.errors(rank).empty());
    REQUIRE(world.batches(rank).size() > before);
    CHECK(newest_ticket(world, rank) != kNoTicket);
    CHECK(world.batches(rank).back().contributors == 0);
  }
  CHECK(world.participant(0).pending_names(9).empty());
  CHECK(world.broken.ok());
}

TEST_CASE("a rank that has joined may propose nothing in that set until the join ends") {
  AgreementConfig config = World::config_of(2);
  config.sets.push_back({1, {0, 1}, {2}, true});
  World world(config);
  join(world, 0);
  world.submit(0, World::tensor("w"));
  join(world, 0);
  REQUIRE(world.errors(0).size() == 2);
  for (const ErrorEvent& error : world.errors(0)) {
    CHECK(error.status.code() == Code::kInvalidArgument);
    CHECK(error.status.sentence().find("rank 0 (host a) has joined process set 0") == 0);
  }
  Request other = World::tensor("w");
  other.set = 1;
  world.submit_all(other);
  world.exchange();
  CHECK(world.batches(0).size() == 1);
  join(world, 1);
  world.exchange();
  world.submit_all(World::tensor("w"));
  world.exchange();
  CHECK(world.batches(0).size() == 2);
}

TEST_CASE("an operation without a neutral element fails on the other ranks, which go on") {
  World world(4);
  join(world, 2);
  join(world, 3);
  for (int rank = 0; rank < 2; ++rank) world.submit(rank, of_kind(OpKind::kBroadcast, "w"));
  Request scaled = with_op("p", ReduceOp::kProduct);
  scaled.metadata.prescale = 0.5;
  Request band = with_op("q", ReduceOp::kBand);
  band.metadata.dtype = Dtype::kI32;
  band.metadata.prescale = 0.5;
  Request least = with_op("r", ReduceOp::kMin);
  least.metadata.dtype = Dtype::kBool;
  least.metadata.prescale = -1;
  for (const Request& each : {band, least, scaled}) {
    for (int rank = 0; rank < 2; ++rank) world.submit(rank, each);
  }
  for (int rank = 0; rank < 2; ++rank) world.submit(rank, World::tensor("sum"));
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(world.errors(rank).size() == 4);
    CHECK(world.errors(rank)[1].status.sentence().find("a prescaled band has no") != std::string::npos);
    CHECK(world.errors(rank)[2].status.sentence().find("a min of bools that a scale <= 0") != std::string::npos);
    CHECK(world.errors(rank).front().status.code() == Code::kMismatch);
    CHECK(world.errors(rank).front().status.sentence() ==
          "broadcast \"w\": rank 2 (host a), rank 3 (host b) have joined, and broadcast needs every member");
    CHECK(world.errors(rank).back().status.sentence().find("a prescaled product has no") != std::string::npos);
    CHECK(world.batches(rank).size() == 1);
  }
  CHECK(world.errors(2).empty());
  for (int rank = 0; rank < 2; ++rank) join(world, rank);
  world.start_all();
  world.exchange();
  world.submit_all(of_kind(OpKind::kBroadcast, "w"));
  world.exchange();
  CHECK(world.errors(0).size() == 4);
  CHECK(world.batches(3).size() == 2);
  CHECK(world.broken.ok());
}

TEST_CASE("barriers and joins mix: who has joined does not hold a barrier up") {
  World world(3);
  world.submit(0, of_kind(OpKind::kBarrier));
  join(world, 1);
  world.submit(2, World::tensor("w"));
  world.submit(2, of_kind(OpKind::kBarrier));
  join(world, 2);
  world.exchange();
  REQUIRE(world.batches(0).size() == 1);
  CHECK(world.batches(0).front().metadata.kind == OpKind::kBarrier);
  world.submit(0, World::tensor("w"));
  join(world, 0);
  world.start_all();
  world.exchange();
  CHECK(world.all<JoinEvent>(1).size() == 1);
  world.submit_all(of_kind(OpKind::kBarrier));
  world.start_all();
  world.exchange();
  CHECK(world.batches(1).size() == 3);
}

TEST_CASE("a mismatch while somebody has joined names those who sent something") {
  World world(3);
  join(world, 1);
  world.submit(0, World::tensor("w", {1}));
  world.submit(2, World::tensor("w", {2}));
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence() ==
        "allreduce \"w\": shape differs: rank 0 (host a) sent [1], rank 2 (host a) sent [2]");
  CHECK(world.errors(1).empty());
}

TEST_CASE("errors still owed to a rank that joins are dropped") {
  const bool joined_first = GENERATE(true, false);
  World world(2);
  const uint64_t ticket = world.submit(0, World::tensor("w"));
  world.exchange();
  if (joined_first) join(world, 1);
  world.participant(0).abandon(ticket, "given up");
  if (joined_first) world.up();
  world.exchange();
  if (!joined_first) join(world, 1);
  join(world, 0);
  world.start_all();
  world.exchange();
  REQUIRE(world.all<JoinEvent>(1).size() == 1);
  world.submit_all(World::tensor("w"));
  world.exchange();
  CHECK(world.errors(1).empty());
  CHECK(newest_ticket(world, 1) != kNoTicket);
  CHECK(world.broken.ok());
}

TEST_CASE("a group whole but for ranks that have joined is agreed whole") {
  World world(3);
  join(world, 2);
  for (int rank = 0; rank < 2; ++rank) world.submit_group(rank, {World::tensor("a"), World::tensor("b", {7})});
  world.exchange();
  REQUIRE(world.batches(2).size() == 1);
  CHECK(world.batches(2).front().tickets == std::vector<uint64_t>{kNoTicket, kNoTicket});
  CHECK(world.batches(2).front().counts == std::vector<int64_t>{4, 7});
}

TEST_CASE("ids are evicted and given anew while a rank has joined") {
  AgreementConfig config = World::config_of(2);
  config.cache_capacity = 1;
  World world(config);
  world.submit_all(World::tensor("w0"));
  join(world, 1);
  for (int step = 0; step < 6; ++step) {
    world.submit(0, World::tensor("w" + std::to_string(step % 3)));
    world.exchange();
    world.start_all();
    world.exchange();
  }
  join(world, 0);
  world.exchange();
  REQUIRE(world.all<JoinEvent>(1).size() == 1);
  for (int i = 0; i < 3; ++i) {
    world.submit_all(World::tensor("w" + std::to_string(i)));
    world.exchange();
    world.start_all();
    world.exchange();
    CHECK(newest_ticket(world, 1) != kNoTicket);
  }
  CHECK(world.broken.ok());
}

TEST_CASE("a join of a set that is being made waits for it, and a set's end is its end") {
  World world(3);
  world.participant(0).add_set(40, {0, 1}, "");
  join(world, 0, 40);
  world.submit(0, [] {
    Request late = World::tensor("w");
    late.set = 40;
    return late;
  }());
  CHECK(world.errors(0).size() == 1);
  world.participant(1).add_set(41, {0, 1}, "");
  world.exchange();
  join(world, 1, 41);
  world.exchange();
  CHECK(world.all<JoinEvent>(0).size() == 1);
  CHECK(world.all<JoinEvent>(1).size() == 1);
  join(world, 0, 40);
  world.participant(1).goodbye();
  world.exchange();
  REQUIRE(world.errors(0).size() == 2);
  CHECK(world.errors(0).back().status.code() == Code::kShutDown);
  join(world, 2);
  world.participant(2).end(Status(Code::kPeerLost, "rank 1 died", 1));
  world.collect(2);
  CHECK(world.errors(2).size() == 1);
}
