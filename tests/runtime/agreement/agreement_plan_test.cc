#include <catch2/catch.hpp>

#include "runtime/agreement/planner.h"
#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

Request barrier() {
  Request request = World::tensor("", {});
  request.metadata.kind = OpKind::kBarrier;
  return request;
}

Request of_dtype(const std::string& name, Dtype dtype) {
  Request request = World::tensor(name);
  request.metadata.dtype = dtype;
  return request;
}

}  // namespace

TEST_CASE(
    "the time of a trial reaches rank 0 from the set's lowest member, in the set's own words, and from no other") {
  AgreementConfig config = World::config_of(3);
  config.sets.push_back({1, {1, 2}, {2}, true});
  std::vector<uint64_t> heard;
  std::vector<SetId> sets;
  config.select = [&](const BatchShape& shape) -> Result<AlgorithmChoice> {
    sets.push_back(shape.set);
    return AlgorithmChoice{1, 64, 5, Stores::kPlain, 40 + shape.set};
  };
  config.timed = [&](const TrialTime& time) { heard.push_back(time.trial); };
  World world(config);
  Request request = World::tensor("x");
  request.set = 1;
  for (const int rank : {1, 2}) world.submit(rank, request);
  world.submit_all(World::tensor("y"));
  world.exchange();
  REQUIRE((world.batches(2).size() == 2 && world.batches(0).size() == 1));
  CHECK(sets == std::vector<SetId>{0, 1});
  CHECK(world.batches(0)[0].choice.trial == 40);
  CHECK(world.batches(0)[0].choice.stores == Stores::kPlain);
  for (int rank = 0; rank < 3; ++rank) {
    for (const BatchEvent& batch : world.batches(rank)) {
      world.participant(rank).timed(batch.set, {batch.choice.trial, std::chrono::microseconds(5), Distance::kNear});
    }
  }
  world.exchange();
  CHECK(heard == std::vector<uint64_t>{40, 41});
  CHECK(world.broken.ok());
  ProposalWriter liar(config.epoch);
  put_trial_time(liar.record(1, ProposalKind::kTimed), {41, std::chrono::microseconds(5), Distance::kNear});
  CHECK(world.arbiter.receive(2, liar.take()).rank() == 2);
}

TEST_CASE("a set has credit for two batches; what becomes ready meanwhile leaves together") {
  World world(2);
  for (int i = 0; i < 2; ++i) {
    world.submit_all(World::tensor("w" + std::to_string(i)));
    world.exchange();
  }
  CHECK(world.batches(0).size() == 2);
  CHECK_FALSE(world.arbiter.out_of_credit());
  for (int i = 2; i < 7; ++i) {
    world.submit_all(World::tensor("w" + std::to_string(i)));
    world.exchange();
  }
  CHECK(world.batches(0).size() == 2);
  CHECK(world.arbiter.out_of_credit());
  world.participant(0).started(kGlobalSet, 0);
  world.exchange();
  CHECK(world.batches(0).size() == 2);  // one runs, one is queued
  world.participant(0).started(kGlobalSet, 1);
  world.exchange();
  REQUIRE(world.batches(1).size() == 3);
  CHECK(world.batches(1).back().tickets.size() == 5);
  CHECK(world.batches(1).back().number == 2);
}

TEST_CASE("frames that hold only batches, and what these need, wake nobody who expects none of them") {
  World world(3);
  const auto rings = [&world] {
    world.up();
    world.arbiter.plan();
    std::vector<bool> found;
    for (int rank = 0; rank < 3; ++rank) found.push_back(world.arbiter.must_ring(rank));
    for (int rank = 0; rank < 3; ++rank) CHECK_FALSE(world.arbiter.must_ring(rank));  // once
    CHECK(world.down() != 0);
    return found;
  };
  const std::vector<bool> none(3), all(3, true);
  world.submit_all(World::tensor("w"));  // with a definition and an id in front
  CHECK(rings() == none);
  world.submit_all(World::tensor("w"));
  CHECK(rings() == none);
  for (int rank = 0; rank < 3; ++rank) world.submit(rank, World::tensor("other", {rank + 1}));  // fails
  CHECK(rings() == all);
  for (int rank = 0; rank < 3; ++rank) world.participant(rank).add_set(1, {0, 2}, "two");
  CHECK(rings()[2]);
  world.participant(1).goodbye();
  CHECK(rings() == all);
  CHECK(world.broken.ok());
}

TEST_CASE("only the set's lowest member returns credits") {
  AgreementConfig config = World::config_of(3);
  config.sets.push_back({1, {2, 1}, {2}, true});
  World world(config);
  for (int i = 0; i < 3; ++i) {
    for (int rank = 1; rank < 3; ++rank) {
      Request request = World::tensor("w" + std::to_string(i));
      request.set = 1;
      world.submit(rank, request);
    }
    world.exchange();
  }
  for (const uint64_t number : {0u, 1u}) world.participant(2).started(1, number);
  world.exchange();
  CHECK(world.batches(1).size() == 2);
  for (const uint64_t number : {0u, 1u}) world.participant(1).started(1, number);
  world.exchange();
  CHECK(world.batches(1).size() == 3);
}

TEST_CASE("a batch fuses up to the threshold, and a larger tensor goes alone") {
  AgreementConfig config = World::config_of(1);
  config.fusion_threshold_bytes = 64;
  World world(config);
  for (const int64_t count : {8, 8, 1, 100, 2})
    world.submit(0, World::tensor("t" + std::to_string(world.seen(0).size()) + std::to_string(count), {count}));
  for (int round = 0; round < 4; ++round) {
    world.exchange();
    world.start_all();
  }
  std::vector<std::vector<uint64_t>> tickets;
  for (const BatchEvent& batch : world.batches(0)) tickets.push_back(batch.tickets);
  CHECK(tickets == std::vector<std::vector<uint64_t>>{{1, 2}, {3}, {4}, {5}});
}

TEST_CASE("a threshold of 0 fuses nothing") {
  AgreementConfig config = World::config_of(1);
  config.fusion_threshold_bytes = 0;
  World world(config);
  for (int i = 0; i < 3; ++i) world.submit(0, World::tensor("e" + std::to_string(i), {0}));
  for (int round = 0; round < 3; ++round) {
    world.exchange();
    world.start_all();
  }
  CHECK(world.batches(0).size() == 3);
}

TEST_CASE("fusion looks past other dtypes, ops, codecs and scales, and keeps the order of readiness") {
  World world(1);
  world.submit(0, of_dtype("a", Dtype::kF32));
  world.submit(0, of_dtype("b", Dtype::kF16));
  Request scaled = of_dtype("c", Dtype::kF32);
  scaled.metadata.prescale = 0.5;
  world.submit(0, scaled);
  world.submit(0, of_dtype("d", Dtype::kF32));
  world.submit(0, of_dtype("e", Dtype::kF16));
  for (int round = 0; round < 3; ++round) {
    world.exchange();
    world.start_all();
  }
  std::vector<std::vector<uint64_t>> tickets;
  for (const BatchEvent& batch : world.batches(0)) tickets.push_back(batch.tickets);
  CHECK(tickets == std::vector<std::vector<uint64_t>>{{1, 4}, {2, 5}, {3}});
}

TEST_CASE("a barrier is a batch of its own behind everything agreed before it, and nothing passes it") {
  World world(1);
  world.submit(0, of_dtype("a", Dtype::kF32));
  world.submit(0, of_dtype("b", Dtype::kF16));
  world.submit(0, barrier());
  world.submit(0, of_dtype("c", Dtype::kF32));
  world.submit(0, barrier());
  for (int round = 0; round < 5; ++round) {
    world.exchange();
    world.start_all();
  }
  std::vector<uint64_t> order;
  for (const BatchEvent& batch : world.batches(0)) {
    REQUIRE(batch.tickets.size() == 1);
    order.push_back(batch.tickets.front());
  }
  CHECK(order == std::vector<uint64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("a batch without an algorithm is an error on all ranks, for a group as a whole") {
  AgreementConfig config = World::config_of(2);
  config.select = [](const BatchShape& shape) -> Result<AlgorithmChoice> {
    if (shape.dtype == Dtype::kU8) return Status(Code::kInvalidArgument, "the forced algorithm does not know u8");
    return AlgorithmChoice{};
  };
  World world(config);
  for (int rank = 0; rank < 2; ++rank) {
    world.submit_group(rank, {of_dtype("a", Dtype::kF32), of_dtype("b", Dtype::kU8)});
    world.submit(rank, World::tensor("fine"));
  }
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(world.errors(rank).size() == 1);
    CHECK(world.errors(rank).front().tickets.size() == 2);
    CHECK(world.errors(rank).front().status.code() == Code::kInvalidArgument);
    CHECK(world.errors(rank).front().status.sentence() == "the forced algorithm does not know u8");
    CHECK(world.batches(rank).size() == 1);
  }
}

TEST_CASE("a batch on a device fuses less than one in host memory, so that early inputs do not wait for late ones") {
  Metadata metadata;
  metadata.device = GENERATE(-1, 1);
  Planner planner(64 << 20);
  for (uint64_t id = 1; id <= 6; ++id) planner.push(FuseKey(metadata), {id, 0, 10 << 20});
  Cut cut;
  planner.next(cut);
  CHECK(cut.tensors.size() == (metadata.device < 0 ? 6 : 2));
}

TEST_CASE("a removed unit leaves the planner, a barrier included, and what it held back is free") {
  Planner planner(1000);
  const FuseKey all_reduce{Metadata{}};
  Metadata stop;
  stop.kind = OpKind::kBarrier;
  planner.push(all_reduce, {1, 0, 4});
  planner.push(FuseKey(stop), {2, 0, 0});
  planner.push(all_reduce, {3, 0, 4});
  planner.remove(2, 0);
  Cut cut;
  planner.next(cut);
  REQUIRE(cut.tensors.size() == 2);
  CHECK(cut.tensors[1].id == 3);
  CHECK(planner.empty());
}
