// The sets in which one rank sends to another.
#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/agreement/messages.h"
#include "tests/runtime/agreement/agreement_world.h"

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

Request message(const std::string& name, int sender, const Extents& shape = {4}) {
  Request request = World::tensor(name, shape);
  request.metadata.kind = OpKind::kSend;
  request.metadata.root = sender;
  return request;
}

uint64_t send(World& world, int sender, int receiver, const std::string& name) {
  ask_for_pair(world, sender, sender, receiver);
  Request request = message(name, sender);
  request.set = pair_number(sender, sender, receiver);
  return world.submit(sender, std::move(request));
}

uint64_t receive(World& world, int receiver, int sender, const std::string& name) {
  ask_for_pair(world, receiver, sender, receiver);
  Request request = message(name, sender);
  request.set = pair_number(receiver, sender, receiver);
  return world.submit(receiver, std::move(request));
}

uint64_t receive_any(World& world, int receiver, const std::string& name) {
  return world.submit(receiver, message(name, -1));
}

/// The senders of a rank's receives from any, in the order in which they were found.
std::vector<int> sources(World& world, int rank) {
  std::vector<int> found;
  for (const SourceEvent& event : world.all<SourceEvent>(rank)) found.push_back(event.source);
  return found;
}

/// What a rank has run, in order.
std::vector<uint64_t> tickets_run(World& world, int rank) {
  std::vector<uint64_t> order;
  for (const BatchEvent& batch : world.batches(rank)) {
    order.insert(order.end(), batch.tickets.begin(), batch.tickets.end());
  }
  return order;
}

}  // namespace

TEST_CASE("a receive from any rank takes what is sent first, before it or after it, under its name") {
  for (const char* name : {"m", ""}) {
    const bool early = GENERATE(true, false);
    World world(3);
    uint64_t received = 0;
    if (early) {
      received = receive_any(world, 2, name);
      world.exchange();
      CHECK(world.all<SourceEvent>(2).empty());
    }
    send(world, 1, 2, "another");
    const uint64_t sent = send(world, 1, 2, name);
    world.exchange();
    if (!early) received = receive_any(world, 2, name);
    world.exchange();
    REQUIRE(sources(world, 2) == std::vector<int>{1});
    CHECK(world.all<SourceEvent>(2).front().ticket == received);
    REQUIRE(world.batches(2).size() == 1);
    CHECK(world.batches(2).front().tickets == std::vector<uint64_t>{received});
    CHECK(world.batches(2).front().metadata.root == 1);
    CHECK(world.batches(1).front().tickets == std::vector<uint64_t>{sent});
    CHECK(world.broken.ok());
  }
}

TEST_CASE("receives of one name keep their order, from any rank or from one") {
  World world(3);
  const uint64_t any = receive_any(world, 2, "m");
  const uint64_t from_one = receive(world, 2, 1, "m");
  const uint64_t last = receive_any(world, 2, "m");
  const uint64_t first_sent = send(world, 1, 2, "m");
  world.exchange();
  CHECK(sources(world, 2) == std::vector<int>{1});
  REQUIRE(world.batches(2).size() == 1);
  CHECK(world.batches(2).front().tickets == std::vector<uint64_t>{any});
  CHECK(world.batches(1).front().tickets == std::vector<uint64_t>{first_sent});
  send(world, 0, 2, "m");
  world.exchange();
  CHECK(sources(world, 2) == std::vector<int>{1, 0});
  send(world, 1, 2, "m");
  world.exchange();
  CHECK(tickets_run(world, 2) == std::vector<uint64_t>{any, last, from_one});
  CHECK(world.broken.ok());
}

TEST_CASE("a receive from any rank waits for one before it whose set is not made yet") {
  World world(4);
  send(world, 1, 2, "m");
  world.up();
  world.arbiter.plan();  // the set is made, and rank 2 has not heard of it
  const uint64_t from_one = receive(world, 2, 1, "m");
  const uint64_t any = receive_any(world, 2, "m");
  world.exchange();
  CHECK(sources(world, 2).empty());
  send(world, 3, 2, "m");
  world.exchange();
  CHECK(sources(world, 2) == std::vector<int>{3});
  CHECK(tickets_run(world, 2) == std::vector<uint64_t>{from_one, any});
  CHECK(world.broken.ok());
}

TEST_CASE("a receive from a rank is not held by one from others, and fails with its sender where it is held") {
  AgreementConfig config = World::config_of(4);
  config.sets.push_back({1, {0, 2}, {2}, true});
  World world(config);
  Request any = message("m", -1);
  any.set = 1;
  world.submit(2, any);
  const uint64_t free = receive(world, 2, 1, "m");  // rank 1 is not a member of that set
  send(world, 1, 2, "m");
  world.exchange();
  REQUIRE(world.batches(2).size() == 1);
  CHECK(world.batches(2).front().tickets == std::vector<uint64_t>{free});
  receive_any(world, 2, "m");
  const uint64_t held = receive(world, 2, 3, "m");
  world.participant(3).goodbye();
  world.exchange();
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().tickets == std::vector<uint64_t>{held});
  CHECK(world.errors(2).front().status.code() == Code::kShutDown);
  CHECK(world.broken.ok());
}

TEST_CASE("who has given up what it sent comes behind those who have not") {
  World world(4);
  const uint64_t given_up = send(world, 1, 2, "m");
  world.exchange();
  world.participant(1).abandon(given_up, "given up");
  send(world, 3, 2, "m");
  world.exchange();
  for (int i = 0; i < 2; ++i) {
    receive_any(world, 2, "m");
    world.exchange();
  }
  CHECK(sources(world, 2) == std::vector<int>{3, 1});
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.sentence().starts_with("given up"));
  CHECK(world.broken.ok());
}

TEST_CASE("senders that wait take turns") {
  World world(4);
  for (int i = 0; i < 2; ++i) {
    for (const int sender : {0, 1, 3}) send(world, sender, 2, "m");
  }
  world.exchange();
  for (int i = 0; i < 6; ++i) {
    receive_any(world, 2, "m");
    world.exchange();
  }
  CHECK(sources(world, 2) == std::vector<int>{0, 1, 3, 0, 1, 3});
  CHECK(world.errors(2).empty());
  CHECK(world.broken.ok());
}

TEST_CASE("of a process set only its members are received from") {
  AgreementConfig config = World::config_of(4);
  config.sets.push_back({1, {1, 2}, {2}, true});
  World world(config);
  Request request = message("m", -1);
  request.set = 1;
  world.submit(2, request);
  send(world, 0, 2, "m");
  world.exchange();
  CHECK(sources(world, 2).empty());
  send(world, 1, 2, "m");
  world.exchange();
  CHECK(sources(world, 2) == std::vector<int>{1});
  CHECK(world.broken.ok());
}

TEST_CASE("a receive from any rank that is given up fails alone, and what is sent later is for the next one") {
  World world(3);
  const uint64_t given_up = receive_any(world, 2, "m");
  const uint64_t behind = receive_any(world, 2, "m");
  world.exchange();
  world.participant(2).abandon(given_up, "given up");
  world.collect(2);
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().tickets == std::vector<uint64_t>{given_up});
  CHECK(world.errors(2).front().status.sentence() == "given up: no rank has sent it");
  send(world, 1, 2, "m");
  world.exchange();
  REQUIRE(world.all<SourceEvent>(2).size() == 1);
  CHECK(world.all<SourceEvent>(2).front().ticket == behind);
  CHECK(world.arbiter.stalled(SteadyClock::now()).empty());
  CHECK(world.broken.ok());
}

TEST_CASE("when all that could send have left, receives from any rank fail, and those behind them begin") {
  World world(3);
  const uint64_t any = receive_any(world, 2, "m");
  for (const int rank : {1, 0}) {
    world.participant(rank).goodbye();
    if (rank == 1) world.exchange();
    if (rank == 1) CHECK(world.errors(2).empty());
  }
  world.exchange();
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().tickets == std::vector<uint64_t>{any});
  CHECK(world.errors(2).front().status.code() == Code::kShutDown);
  CHECK(world.broken.ok());
}

TEST_CASE("the last sender's goodbye fails a receive from any rank of a set, and a death fails all") {
  AgreementConfig config = World::config_of(4);
  config.sets.push_back({1, {1, 2}, {2}, true});
  World world(config);
  Request request = message("m", -1);
  request.set = 1;
  world.submit(2, request);
  const uint64_t of_another = receive_any(world, 2, "n");
  world.participant(1).goodbye();
  world.exchange();
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.sentence() ==
        "all other ranks of the process set of ranks 1-2 have shut down, so none can send to a receive from any rank");
  world.participant(2).end(Status(Code::kPeerLost, "rank 3 died", 3));
  world.collect(2);
  REQUIRE(world.errors(2).size() == 2);
  CHECK(world.errors(2).back().tickets == std::vector<uint64_t>{of_another});
  CHECK(world.broken.ok());
}

TEST_CASE("a receive from any rank that nobody sends to is stalled") {
  World world(3);
  receive_any(world, 2, "m");
  world.exchange();
  const std::vector<Stalled> stalled = world.arbiter.stalled(SteadyClock::now());
  REQUIRE(stalled.size() == 1);
  CHECK(stalled.front().what == "send \"m\" from any rank to rank 2");
  CHECK(stalled.front().have == std::vector<int>{2});
  CHECK(stalled.front().lack == std::vector<int>{0, 1});
}

TEST_CASE("a probe by a rank that is not among those it names breaks the protocol") {
  World world(3);
  WireWriter frame;
  frame.varint(7);
  frame.varint(static_cast<uint64_t>(ProposalKind::kProbe) << 2 | 3);
  frame.varint(1);
  frame.text("m");
  put_ranks(frame, {0, 1});
  CHECK(world.arbiter.receive(2, frame.view()).code() == Code::kPeerLost);
}

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
