#include <catch2/catch.hpp>

#include "runtime/agreement/messages.h"
#include "tests/runtime/agreement/agreement_world.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

constexpr SetId kFirst = 50;  ///< ranks' own numbers, chosen to differ from rank 0's ids
constexpr SetId kSecond = 60;

Request in_set(SetId number, const std::string& name, const Extents& shape = {4}) {
  Request request = World::tensor(name, shape);
  request.set = number;
  return request;
}

/// What `rank` calls its first set: another number on every rank.
SetId number_of(int rank, SetId base = kFirst) { return base + static_cast<SetId>(rank); }

void add_on(World& world, const std::vector<int>& callers, const std::vector<int>& ranks, const std::string& name,
            SetId base = kFirst) {
  for (const int rank : callers) world.participant(rank).add_set(number_of(rank, base), ranks, name);
}

void submit_on(World& world, const std::vector<int>& callers, const std::string& name, SetId base = kFirst) {
  for (const int rank : callers) world.submit(rank, in_set(number_of(rank, base), name));
}

}  // namespace

TEST_CASE("a set is made by its members alone, without rank 0, and operations wait for it") {
  World world(4);
  add_on(world, {1}, {1, 3}, "");
  submit_on(world, {1}, "w");
  world.exchange();
  CHECK(world.seen(1).empty());
  CHECK(world.participant(1).pending_names(9) == std::vector<std::string>{"w"});
  add_on(world, {3}, {1, 3}, "");
  submit_on(world, {3}, "w");
  world.exchange();
  for (const int rank : {1, 3}) {
    REQUIRE(world.all<SetEvent>(rank).size() == 1);
    CHECK(world.all<SetEvent>(rank).front().number == number_of(rank));
    CHECK(world.all<SetEvent>(rank).front().members.ranks == std::vector<int>{1, 3});
    REQUIRE(world.batches(rank).size() == 1);
    CHECK(world.batches(rank).front().set == world.all<SetEvent>(rank).front().members.id);
  }
  CHECK(world.batches(0).empty());
  CHECK(world.broken.ok());
}

TEST_CASE("lists without a name match by call order and never shift each other") {
  World world(3);
  add_on(world, {0, 1}, {0, 1}, "");
  add_on(world, {1}, {1, 2}, "", kSecond);
  world.participant(0).add_set(80, {0, 1}, "");
  world.participant(1).add_set(81, {0, 1}, "");
  add_on(world, {2}, {1, 2}, "", kSecond);
  world.exchange();
  const std::vector<SetEvent> zero = world.all<SetEvent>(0);
  const std::vector<SetEvent> one = world.all<SetEvent>(1);
  REQUIRE(zero.size() == 2);
  REQUIRE(one.size() == 3);
  CHECK(zero[0].number == number_of(0));
  CHECK(zero[1].number == 80);
  const auto id_of = [](const std::vector<SetEvent>& events, SetId number) {
    for (const SetEvent& event : events) {
      if (event.number == number) return event.members.id;
    }
    return kGlobalSet;
  };
  CHECK(id_of(one, number_of(1)) == zero[0].members.id);
  CHECK(id_of(one, 81) == zero[1].members.id);
  CHECK(id_of(one, number_of(1, kSecond)) == world.all<SetEvent>(2).front().members.id);
}

TEST_CASE("two lists under one name are a mismatch on all who asked, whatever came first") {
  const std::string expected =
      "process set \"tp\": ranks 0-1 (host a) asked for ranks 0-1, rank 2 (host a) asked for ranks 1-2";
  const bool made_before = GENERATE(true, false);
  World world(4);
  add_on(world, {0, 1}, {0, 1}, "tp");
  submit_on(world, {0}, "w");
  if (made_before) world.exchange();
  add_on(world, {2}, {1, 2}, "tp");
  submit_on(world, {2}, "w");
  world.exchange();
  submit_on(world, {1}, "w");
  add_on(world, {3}, {2, 3}, "tp");
  submit_on(world, {3}, "late");
  world.exchange();
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    REQUIRE(world.errors(rank).size() == 1);
    const Status status = world.errors(rank).front().status;
    CHECK(status.code() == Code::kMismatch);
    CHECK(status.sentence() == expected + "; allreduce \"" + (rank == 3 ? "late" : "w") + "\" needs it");
  }
  world.submit_all(World::tensor("global"));
  world.exchange();
  CHECK(world.batches(3).size() == 1);
  CHECK(world.broken.ok());
}

TEST_CASE("a rank outside the set that gives another list under its name is a mismatch too") {
  World world(3);
  add_on(world, {0, 1}, {0, 1}, "tp");
  add_on(world, {2}, {0}, "tp");
  submit_on(world, {0}, "w");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.code() == Code::kMismatch);
}

TEST_CASE("a rank outside the set that gives the same list is not a member and does no harm") {
  World world(3);
  add_on(world, {0, 1, 2}, {0, 1}, "tp");
  submit_on(world, {0, 1, 2}, "w");
  world.exchange();
  CHECK(world.batches(1).size() == 1);
  REQUIRE(world.errors(2).size() == 1);
  CHECK(world.errors(2).front().status.code() == Code::kInvalidArgument);
  CHECK(world.all<SetEvent>(2).empty());
}

TEST_CASE("a set that all members have removed is forgotten and its name can be used again") {
  World world(3);
  for (int round = 0; round < 3; ++round) {
    const auto base = static_cast<SetId>(100 * round + 100);
    add_on(world, {1, 2}, {1, 2}, "tp", base);
    submit_on(world, {1, 2}, "w", base);
    world.exchange();
    REQUIRE(world.batches(1).size() == static_cast<size_t>(round + 1));
    world.participant(1).started(world.batches(1).back().set, world.batches(1).back().number);
    CHECK(world.batches(1).back().number == 0);
    // The next round's request crosses the other's removal.
    world.participant(2 - round % 2).remove_set(number_of(2 - round % 2, base));
    if (round == 1) world.exchange();
    world.participant(1 + round % 2).remove_set(number_of(1 + round % 2, base));
  }
  world.exchange();
  CHECK(world.errors(1).empty());
  CHECK(world.broken.ok());
}

TEST_CASE("what needs a member that has removed the set fails and names it") {
  World world(3);
  add_on(world, {0, 1}, {0, 1}, "tp");
  world.exchange();
  submit_on(world, {0}, "w");
  world.participant(1).remove_set(number_of(1));
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.code() == Code::kMismatch);
  CHECK(world.errors(0).front().status.sentence() ==
        "rank 1 (host a) has removed process set \"tp\" (ranks 0-1); allreduce \"w\" needs it");
  submit_on(world, {0, 1}, "w");
  CHECK(world.errors(0).size() == 2);
  CHECK(world.errors(1).front().status.code() == Code::kInvalidArgument);
}

TEST_CASE("a set removed before it was made is refused to those who ask later") {
  World world(2);
  add_on(world, {0}, {0, 1}, "");
  world.participant(0).remove_set(number_of(0));
  world.exchange();
  add_on(world, {1}, {0, 1}, "");
  submit_on(world, {1}, "w");
  world.exchange();
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.sentence() ==
        "a process set without a name of ranks 0-1, asked for by rank 0 (host a) and not by rank 1 (host a): rank 0 "
        "(host a) has removed the process set; allreduce \"w\" needs "
        "it");
  // The next pair of requests belongs together again.
  add_on(world, {0, 1}, {0, 1}, "", kSecond);
  submit_on(world, {0, 1}, "w", kSecond);
  world.exchange();
  CHECK(world.batches(0).size() == 1);
  CHECK(world.broken.ok());
}

TEST_CASE("a set removed while it is being made is removed once it is") {
  World world(2);
  add_on(world, {0, 1}, {0, 1}, "tp");
  world.up();
  world.participant(0).remove_set(number_of(0));
  submit_on(world, {1}, "w");
  world.exchange();
  CHECK(world.all<SetEvent>(0).empty());
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.code() == Code::kMismatch);
  CHECK(world.broken.ok());
}

TEST_CASE("abandoning an operation whose set is never made gives the set up on all ranks") {
  World world(3);
  add_on(world, {0, 1}, {0, 1, 2}, "tp");
  const uint64_t ticket = world.submit(0, in_set(number_of(0), "w"));
  submit_on(world, {1}, "v");
  world.exchange();
  world.participant(0).abandon(ticket, "rank 2 never came");
  world.exchange();
  add_on(world, {2}, {0, 1, 2}, "tp");
  submit_on(world, {2}, "w");
  world.exchange();
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(world.errors(rank).size() == 1);
    CHECK(world.errors(rank).front().status.code() == Code::kTimeout);
    CHECK(world.errors(rank).front().status.sentence() ==
          "process set \"tp\" of ranks 0-2, asked for by ranks 0-1 (host a) and not by rank 2 (host a): rank 2 never "
          "came; allreduce \"" +
              std::string(rank == 1 ? "v" : "w") + "\" needs it");
  }
}

TEST_CASE("an operation abandoned while its set is being made gets its error verdict afterwards") {
  World world(2);
  add_on(world, {0, 1}, {0, 1}, "");
  world.up();
  const uint64_t ticket = world.submit(0, in_set(number_of(0), "w"));
  world.participant(0).abandon(ticket, "too slow");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence() == "too slow: submitted by rank 0 (host a), not by rank 1 (host a)");
  submit_on(world, {1}, "w");
  CHECK(world.errors(1).size() == 1);
  submit_on(world, {0, 1}, "w");
  world.exchange();
  CHECK(world.batches(0).size() == 1);
}

TEST_CASE("two lists under one name are a mismatch also where a rank of the first has left") {
  World world(3);
  world.participant(2).goodbye();
  world.up();
  add_on(world, {1}, {1, 2}, "tp");
  world.exchange();
  add_on(world, {0}, {0, 1}, "tp");
  submit_on(world, {0}, "w");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.code() == Code::kMismatch);
}

TEST_CASE("of operations submitted together while their set is being made only the one that is abandoned fails") {
  World world(2);
  add_on(world, {0, 1}, {0, 1}, "");
  world.up();
  std::vector<Request> requests{in_set(number_of(0), "v"), in_set(number_of(0), "w")};
  requests[0].ticket = 100;
  requests[1].ticket = 101;
  world.participant(0).submit(requests);
  world.participant(0).abandon(100, "too slow");
  submit_on(world, {1}, "w");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets == std::vector<uint64_t>{100});
  CHECK(world.batches(0).size() == 1);
}

TEST_CASE("a goodbye ends the sets of that rank, made or not, and no others") {
  World world(4);
  add_on(world, {0, 1}, {0, 1, 3}, "waits");
  submit_on(world, {0}, "w");
  add_on(world, {1, 2}, {1, 2}, "lives", kSecond);
  world.exchange();
  world.participant(3).goodbye();
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence() == "rank 3 (host b) has shut down; allreduce \"w\" needs it");
  submit_on(world, {1, 2}, "v", kSecond);
  world.participant(1).add_set(90, {1, 3}, "too late");
  world.submit(1, in_set(90, "w"));
  world.exchange();
  CHECK(world.batches(2).size() == 1);
  REQUIRE(world.errors(1).size() == 1);
  CHECK(world.errors(1).front().status.rank() == 3);
  CHECK(world.broken.ok());
}

TEST_CASE("the end of the epoch fails what waits for its set") {
  World world(2);
  add_on(world, {0}, {0, 1}, "");
  const uint64_t ticket = world.submit(0, in_set(number_of(0), "w"));
  world.participant(0).end(Status(Code::kPeerLost, "rank 1 died", 1));
  world.collect(0);
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().tickets == std::vector<uint64_t>{ticket});
}

TEST_CASE("a set's ranks lie by host, then by rank, in groups of at most 16 of one host") {
  std::vector<int> ranks;
  std::vector<int> host_of;
  for (int rank = 0; rank < 40; ++rank) {
    ranks.push_back(rank);
    host_of.push_back(rank % 2);
  }
  const SetMembers all = arrange_set(3, ranks, host_of);
  CHECK(all.groups == std::vector<int>{16, 4, 16, 4});
  CHECK(all.ranks[1] == 2);
  CHECK(all.ranks[20] == 1);
  CHECK_FALSE(all.one_host);
  const SetMembers odd = arrange_set(4, std::vector<int>{1, 7}, host_of);
  CHECK(odd.one_host);
  CHECK(odd.groups == std::vector<int>{2});
  CHECK(arrange_set(5, std::vector<int>{0, 1, 2}, {}).one_host);
}

TEST_CASE("lists of ranks survive the wire as ranges and no list without a rank does") {
  WireWriter writer;
  put_ranks(writer, {0, 1, 2, 3, 9, 4000, 4001});
  CHECK(writer.size() == 8);
  WireReader reader(writer.view());
  CHECK(get_ranks(reader, 4002) == std::vector<int>{0, 1, 2, 3, 9, 4000, 4001});
  CHECK(reader.finished());
  WireReader small(writer.view());
  get_ranks(small, 4001);
  CHECK_FALSE(small.ok());
  WireWriter none;
  put_ranks(none, {});
  WireReader empty(none.view());
  get_ranks(empty, 5);
  CHECK_FALSE(empty.ok());
}

TEST_CASE("a set that is given up before it is made says who asked for it") {
  World world(3);
  add_on(world, {0, 2}, {0, 1, 2}, "late");
  const uint64_t ticket = world.submit(0, in_set(number_of(0), "w"));
  world.exchange();
  world.participant(0).abandon(ticket, "given up");
  world.exchange();
  REQUIRE(world.errors(0).size() == 1);
  CHECK(world.errors(0).front().status.sentence().find(
            "process set \"late\" of ranks 0-2, asked for by rank 0 (host a), rank 2 (host a) and not by rank 1 (host "
            "a): given up") != std::string::npos);
}
