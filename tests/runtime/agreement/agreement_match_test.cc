#include <catch2/catch.hpp>

#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

TEST_CASE("a tensor becomes a batch on every rank once all members have proposed it") {
  World world(3);
  const uint64_t first = world.submit(0, World::tensor("w1"));
  world.submit(1, World::tensor("w1"));
  world.exchange();
  CHECK(world.seen(0).empty());
  CHECK(world.participant(0).pending_names(9) == std::vector<std::string>{"w1"});
  world.submit(2, World::tensor("w1"));
  world.exchange();
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(world.batches(rank).size() == 1);
    const BatchEvent batch = world.batches(rank).front();
    CHECK(batch.tickets == std::vector<uint64_t>{static_cast<uint64_t>(rank) * 1000 + first});
    CHECK(batch.metadata == World::tensor("w1").metadata);
    CHECK(batch.choice.algorithm == 1);
    CHECK(batch.choice.chunk_bytes == 64);
    CHECK(world.participant(rank).pending_names(9).empty());
  }
}

TEST_CASE("only equal occurrences of a name match") {
  World world(2);
  for (int step = 0; step < 3; ++step) world.submit(0, World::tensor("w1"));
  world.submit(1, World::tensor("w1"));
  world.exchange();
  REQUIRE(world.batches(0).size() == 1);
  CHECK(world.batches(0).front().tickets == std::vector<uint64_t>{1});
  world.submit(1, World::tensor("w1"));
  world.exchange();
  CHECK(world.batches(0).back().tickets == std::vector<uint64_t>{2});
  CHECK(world.participant(0).pending_names(9).size() == 1);
}

TEST_CASE("unnamed operations match by kind and call order") {
  World world(2);
  for (int rank = 0; rank < 2; ++rank) {
    Request broadcast = World::tensor("", {2});
    broadcast.metadata.kind = OpKind::kBroadcast;
    broadcast.metadata.root = 0;
    // The kinds are called in a different order on each rank; each kind counts for itself.
    if (rank == 0) world.submit(rank, broadcast);
    world.submit(rank, World::tensor("", {5}));
    if (rank == 1) world.submit(rank, broadcast);
  }
  CHECK(world.participant(0).pending_names(9) == std::vector<std::string>{"broadcast #0", "allreduce #0"});
  world.exchange();
  CHECK(world.batches(0).size() == 2);
  CHECK(world.errors(0).empty());
  CHECK(world.broken.ok());
}

namespace {

struct Change {
  const char* field;
  void (*apply)(Metadata& metadata);
  const char* usual;
  const char* changed;
};

const Change kChanges[] = {
    {"kind", [](Metadata& m) { m.kind = OpKind::kBroadcast; }, "allreduce", "broadcast"},
    {"dtype", [](Metadata& m) { m.dtype = Dtype::kF64; }, "f32", "f64"},
    {"shape", [](Metadata& m) { m.shape = {10}; }, "[12]", "[10]"},
    {"op", [](Metadata& m) { m.op = ReduceOp::kMax; }, name_of(ReduceOp::kSum), name_of(ReduceOp::kMax)},
    {"codec", [](Metadata& m) { m.codec = CodecId::kFp16; }, name_of(CodecId::kNone), name_of(CodecId::kFp16)},
    {"root", [](Metadata& m) { m.root = 2; }, "no root", "rank 2"},
    {"prescale", [](Metadata& m) { m.prescale = 0.5; }, "1", "0.5"},
    {"postscale", [](Metadata& m) { m.postscale = 0.25; }, "1", "0.25"},
    {"device", [](Metadata& m) { m.device = 1; }, "host memory", "device kind 1"},
};

}  // namespace

TEST_CASE("a mismatch of any field, cached or not, is one sentence on all ranks that says who sent what") {
  for (const Change& change : kChanges) {
    for (const int steps_before : {0, 2}) {
      World world(4);
      for (int step = 0; step < steps_before; ++step) {
        world.submit_all(World::tensor("w1", {12}));
        world.start_all();
        world.exchange();
      }
      Request other = World::tensor("w1", {12});
      change.apply(other.metadata);
      for (int rank = 0; rank < 3; ++rank) world.submit(rank, World::tensor("w1", {12}));
      world.submit(3, other);
      world.exchange();
      const std::string kind = std::string(change.field) == "kind" ? "tensor" : "allreduce";
      const std::string expected = kind + " \"w1\": " + change.field + " differs: ranks 0-2 (host a) sent " +
                                   change.usual + ", rank 3 (host b) sent " + change.changed;
      for (int rank = 0; rank < 4; ++rank) {
        INFO(change.field << " after " << steps_before << " steps, rank " << rank);
        REQUIRE(world.errors(rank).size() == 1);
        CHECK(world.errors(rank).front().status.code() == Code::kMismatch);
        CHECK(world.errors(rank).front().status.sentence() == expected);
      }
      world.submit_all(World::tensor("w1", {12}));
      world.start_all();
      world.exchange();
      CHECK(world.batches(3).size() == static_cast<size_t>(steps_before + 1));
      CHECK(world.broken.ok());
    }
  }
}

TEST_CASE("a mismatch names each field that differs") {
  World world(2);
  world.submit(0, World::tensor("w1", {12}));
  Request other = World::tensor("w1", {10});
  other.metadata.dtype = Dtype::kI8;
  world.submit(1, other);
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence() ==
        "allreduce \"w1\": dtype differs: rank 0 (host a) sent f32, rank 1 (host a) sent i8; "
        "shape differs: rank 0 (host a) sent [12], rank 1 (host a) sent [10]");
}

TEST_CASE("opaque tensors must have elements of one size") {
  World world(2);
  Request small = World::tensor("w1", {12, 4});
  small.metadata.kind = OpKind::kBroadcast;
  small.metadata.root = 0;
  small.metadata.dtype = Dtype::kOpaque;
  Request large = small;
  large.metadata.shape = {12, 24};
  world.submit(0, small);
  world.submit(1, large);
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence() ==
        "broadcast \"w1\": element bytes differs: rank 0 (host a) sent 4, rank 1 (host a) sent 24");
  world.submit_all(small);
  world.exchange();
  REQUIRE(world.batches(1).size() == 1);
  CHECK(world.batches(1).front().metadata.element_bytes() == 4);
  CHECK(world.batches(1).front().metadata.dimensions().size() == 1);
}

TEST_CASE("a sentence about many ranks stays within four KiB") {
  AgreementConfig config = World::config_of(200);
  for (std::string& host : config.names.hosts) host = std::string(60, 'h');
  World world(config);
  for (int rank = 0; rank < 200; ++rank) world.submit(rank, World::tensor(std::string(1024, 'n'), {rank}));
  world.exchange();
  REQUIRE(world.errors(199).size() == 1);
  CHECK(world.errors(199).front().status.sentence().size() == 4096);
  CHECK(world.errors(199).front().status.sentence() == world.errors(0).front().status.sentence());
}

TEST_CASE("who proposes an occurrence that has an error gets it at once") {
  World world(3);
  const uint64_t ticket = world.submit(0, World::tensor("w1"));
  world.exchange();
  world.participant(0).abandon(ticket, "given up");
  world.exchange();
  CHECK(world.errors(1).empty());
  world.submit(1, World::tensor("w1"));
  REQUIRE(world.errors(1).size() == 1);  // before any frame went out
  CHECK(world.errors(1).front().status.sentence() ==
        "given up: submitted by rank 0 (host a), not by ranks 1-2 (host a)");
  world.submit(2, World::tensor("w1"));
  world.submit_all(World::tensor("w1"));
  world.exchange();
  CHECK(world.batches(2).size() == 1);
  CHECK(world.errors(2).size() == 1);
}

TEST_CASE("what agreement cannot carry is refused where it is submitted") {
  World world(2);
  world.submit(0, World::tensor(std::string(1025, 'n')));
  world.submit(0, World::tensor("dims", std::vector<int64_t>(17, 1)));
  world.submit(0, World::tensor("negative", {-1}));
  world.submit(0, World::tensor("large", {int64_t{1} << 46}));
  Request foreign = World::tensor("set");
  foreign.set = 5;
  world.submit(0, foreign);
  Request unsized = World::tensor("opaque", {});
  unsized.metadata.dtype = Dtype::kOpaque;
  world.submit(0, unsized);
  CHECK(world.errors(0).size() == 6);
  for (const ErrorEvent& error : world.errors(0)) CHECK(error.status.code() == Code::kInvalidArgument);
  CHECK(world.exchange() == 0);
}

TEST_CASE("sets overlap without mixing their names and batch numbers") {
  AgreementConfig config = World::config_of(3);
  config.sets.push_back({4, {2, 1}, {2}, true});
  World world(config);
  Request inner = World::tensor("w1", {3});
  inner.set = 4;
  for (int rank = 1; rank < 3; ++rank) world.submit(rank, inner);
  world.submit_all(World::tensor("w1", {8}));
  world.exchange();
  CHECK(world.batches(0).size() == 1);
  REQUIRE(world.batches(2).size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(world.batches(1)[i].set == world.batches(2)[i].set);
    CHECK(world.batches(2)[i].number == 0);
  }
  CHECK(world.batches(2)[1].stamp == world.batches(2)[0].stamp + 5);
}

TEST_CASE("the end of the epoch fails what is pending, once, and everything later") {
  World world(2);
  world.submit(0, World::tensor("w1"));
  world.submit(0, World::tensor("w2"));
  world.participant(0).end(Status(Code::kPeerLost, "rank 1 died", 1));
  world.collect(0);
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets == std::vector<uint64_t>{1, 2});
  world.submit(0, World::tensor("w3"));
  REQUIRE(world.errors(0).size() == 2);
  CHECK(world.errors(0).back().status.sentence() == "rank 1 died");
}

namespace {

Request in_memory(MemoryKind memory) {
  Request request = World::tensor("w1");
  request.metadata.memory = memory;
  return request;
}

/// A world whose batches say by their algorithm whether they run in place.
World memory_world(int size) {
  AgreementConfig config = World::config_of(size);
  config.select = [](const BatchShape& shape) -> Result<AlgorithmChoice> {
    return AlgorithmChoice{static_cast<uint8_t>(shape.shared ? 9 : 1), 64, 5};
  };
  return World(config);
}

}  // namespace

TEST_CASE("a batch is of shared memory only if every rank's tensor is, and a difference is not a mismatch") {
  World world = memory_world(3);
  using enum MemoryKind;
  const std::vector<std::vector<MemoryKind>> steps = {{kShared, kShared, kShared},    {kShared, kPrivate, kShared},
                                                      {kPrivate, kShared, kShared},   {kShared, kShared, kShared},
                                                      {kPrivate, kPrivate, kPrivate}, {kShared, kShared, kPrivate}};
  for (const std::vector<MemoryKind>& step : steps) {
    for (int rank = 0; rank < 3; ++rank) world.submit(rank, in_memory(step[static_cast<size_t>(rank)]));
    world.exchange();
    world.start_all();
  }
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(world.batches(rank).size() == steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool shared = steps[i] == std::vector(3, kShared);
      CHECK(world.batches(rank)[i].choice.algorithm == (shared ? 9 : 1));
    }
    CHECK(world.errors(rank).empty());
  }
  CHECK(world.broken.ok());
}

TEST_CASE("a rank whose tensor is always in the other memory proposes it in a few bytes") {
  World world = memory_world(2);
  size_t bytes = 0;
  for (int step = 0; step < 5; ++step) {
    world.submit(0, in_memory(MemoryKind::kShared));
    world.submit(1, in_memory(MemoryKind::kPrivate));
    bytes = world.exchange();
    world.start_all();
  }
  CHECK(world.batches(0).size() == 5);
  CHECK(bytes <= 24);  // two frames, and a credit that has gone up with them
}

TEST_CASE("tensors of both memories are in different batches") {
  World world = memory_world(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* name : {"a", "b", "c", "d"}) {
      Request request = World::tensor(name);
      if (*name == 'b' || (*name == 'd' && rank == 0)) request.metadata.memory = MemoryKind::kShared;
      world.submit(rank, request);
    }
  }
  world.exchange();
  REQUIRE(world.batches(0).size() == 2);
  CHECK(world.batches(0)[0].tickets.size() == 3);
  CHECK(world.batches(0)[1].tickets.size() == 1);
  CHECK(world.batches(0)[1].choice.algorithm == 9);
}
