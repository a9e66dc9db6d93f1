#include "runtime/diagnosis/divergence.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr double kStart = 1000;

DumpedOp op(const std::string& name, OpState state, double enqueued, std::optional<uint64_t> batch = {},
            uint32_t set = 0) {
  DumpedOp made;
  made.set = set;
  made.kind = "allreduce";
  made.name = name;
  made.dtype = "f32";
  made.count = 10;
  made.state = state;
  made.batch = batch;
  made.algorithm = batch ? "ring" : "";
  made.when[0] = kStart + enqueued;
  made.when[static_cast<size_t>(state)] = kStart + enqueued;
  return made;
}

RankDump dump_of(int rank, int size, std::vector<DumpedOp> operations) {
  RankDump dump;
  dump.rank = rank;
  dump.size = size;
  dump.host = "a";
  dump.pid = 100 + rank;
  dump.taken = kStart + 50;
  dump.operations = std::move(operations);
  return dump;
}

constexpr auto kProposed = OpState::kProposed;
constexpr auto kFinished = OpState::kFinished;

}  // namespace

TEST_CASE("the first divergence is the earliest operation that some ranks submitted and others did not") {
  const auto done = [](double at) { return op("w0", kFinished, at, 0); };
  std::vector<RankDump> dumps = {dump_of(0, 3, {done(1), op("w1", kProposed, 10), op("w2", kProposed, 12)}),
                                 dump_of(1, 3, {done(1), op("w1", kProposed, 11), op("w2", kProposed, 11)}),
                                 dump_of(2, 3, {done(2), op("x", kProposed, 20)})};
  dumps[2].activity = "train.py:31 in step";
  const std::vector<std::string> lines = first_divergence(dumps);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "first divergence: allreduce \"w1\" (f32, 10 elements) was submitted by ranks 0-1, not by "
        "rank 2; it has waited for 40.000 s");
  CHECK(lines[1] ==
        "  rank 2 (host a, pid 102) has allreduce \"x\" (f32, 10 elements) instead, proposed for 30.000 s; it says: "
        "train.py:31 in step");
}

TEST_CASE(
    "in an elastic job the latest plan's records are compared, and workers are named, also those that are behind") {
  std::vector<RankDump> dumps = {dump_of(0, 4, {op("w", kProposed, 10)}), dump_of(1, 4, {op("x", kProposed, 12)}),
                                 dump_of(1, 4, {op("old", kProposed, 1)}), dump_of(2, 4, {op("old", kProposed, 1)})};
  for (RankDump& dump : dumps) {
    dump.plan = 2;
    dump.workers = {0, 2, 3, 4};
  }
  for (RankDump* late : {&dumps[2], &dumps[3]}) {
    late->plan = 1;
    late->workers = {0, 1, 3, 2};  // ranks 1 and 2 are workers 1 and 3
  }
  CHECK(
      first_divergence(dumps) ==
      std::vector<std::string>{
          "first divergence in plan 2: allreduce \"w\" (f32, 10 elements) was submitted by rank 0 (worker 0), not by "
          "rank 1 (worker 2); nothing is known of ranks 2-3 (workers 3-4); it has waited for 40.000 s",
          "  rank 1 (worker 2, host a, pid 101) has allreduce \"x\" (f32, 10 elements) instead, proposed for 38.000 s",
          "  nothing is known of rank 2 (worker 3): it gave no flight record",
          "  nothing is known of rank 3 (worker 4): it gave no flight record",
          "no flight record came from rank 3 (worker 4)", "worker 1 (rank 1 of plan 1) has not joined plan 2 yet",
          "worker 3 (rank 2 of plan 1) has not joined plan 2 yet"});
}

TEST_CASE("a new worker that waits outside is named, and is compared with nobody") {
  std::vector<RankDump> dumps = {dump_of(0, 1, {}), dump_of(0, 2, {op("w", kFinished, 10, 0)}),
                                 dump_of(1, 2, {op("w", kFinished, 10, 0)})};
  dumps[0].workers = {5};
  for (RankDump* member : {&dumps[1], &dumps[2]}) {
    member->plan = 3;
    member->workers = {0, 4};
  }
  CHECK(first_divergence(dumps) ==
        std::vector<std::string>{"no divergence in plan 3: all ranks have submitted the same, and nothing runs",
                                 "worker 5 (host a, pid 100) is new and waits outside of plan 3"});
  CHECK(first_divergence(std::vector<RankDump>{dumps[0]}).back() ==
        "worker 5 (host a, pid 100) is new and waits outside of the job");
}

TEST_CASE("what has waited for a moment only is not a divergence, and asks for a second look") {
  const auto look = [](double waits) {
    return merge_dumps(std::vector<RankDump>{dump_of(0, 2, {op("w", kFinished, 49, 0), op("w", kProposed, 50 - waits)}),
                                             dump_of(1, 2, {op("w", kFinished, 49, 0)})});
  };
  const auto verdict = [](const MergedDumps& merged) {
    return nlohmann::json::parse(merged.json).at("verdict").front().get<std::string>();
  };
  CHECK(verdict(look(0.004)) ==
        "no divergence: the ranks are under way, and nothing has waited for longer than 0.004 s");
  CHECK_FALSE(look(0.004).settled);
  CHECK_THAT(verdict(look(0.7)), StartsWith("first divergence: ") && Contains("; it has waited for 0.700 s"));
  CHECK(look(0.7).settled);
}

TEST_CASE("what a record has no room for is counted, and is what is over before what is in flight") {
  RankDump dump = dump_of(0, 2, {});
  for (uint64_t i = 0; i < 600; ++i) {
    dump.operations.push_back(op("w", i % 2 == 0 ? kFinished : kProposed, 10));
    dump.operations.back().number = i;
  }
  const std::string whole = to_json(dump);
  CHECK(to_json_within(dump, whole.size()) == whole);
  const std::string json = to_json_within(dump, whole.size() * 2 / 3);
  CHECK(json.size() <= whole.size() * 2 / 3);
  const RankDump less = dump_from_json(json).value();
  CHECK(less.left_out + less.operations.size() == 600);
  CHECK(less.operations.front().number == 1);
  CHECK_THAT(first_divergence(std::vector<RankDump>{less, dump_of(1, 2, {})}).back(),
             Contains("rank 0 has ") && Contains(" more operations than its record has room for"));
  CHECK(dump_from_json(to_json_within(dump, 10)).value().left_out == 600);
}

TEST_CASE("of a rank that gave no record nothing is said but that") {
  const std::vector<RankDump> dumps = {dump_of(0, 4, {op("w", kProposed, 10)}), dump_of(1, 4, {op("x", kProposed, 11)}),
                                       dump_of(3, 4, {op("w", kProposed, 12)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  CHECK_THAT(lines.at(0), Contains("submitted by rank 0, rank 3, not by rank 1; nothing is known of rank 2"));
  CHECK_THAT(lines.at(2), Contains("nothing is known of rank 2"));
}

TEST_CASE("of two sides that wait for each other the one of fewer ranks is said to have left the other") {
  const std::vector<RankDump> dumps = {dump_of(0, 3, {op("w", kProposed, 10)}), dump_of(1, 3, {op("w", kProposed, 10)}),
                                       dump_of(2, 3, {op("x", kProposed, 9)})};
  CHECK_THAT(first_divergence(dumps).at(0), Contains("allreduce \"w\"") && Contains("not by rank 2"));
}

TEST_CASE("a rank with nothing in flight is said to have nothing, and what its last operation was") {
  const std::vector<RankDump> dumps = {dump_of(0, 2, {op("w", kFinished, 1, 0), op("w", kProposed, 10)}),
                                       dump_of(1, 2, {op("w", kFinished, 1, 0)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Contains("submitted by rank 0, not by rank 1"));
  CHECK_THAT(lines[1], Contains("nothing of the set in flight; its last was allreduce \"w\"") &&
                           Contains("finished 49.000 s ago"));
  const std::vector<RankDump> never = {dumps[0], dump_of(1, 2, {})};
  CHECK_THAT(first_divergence(never).at(1), Contains("has never submitted anything"));
}

TEST_CASE("unnamed operations are compared by their place among those in agreement") {
  const auto unnamed = [](double at) { return op("", kProposed, at); };
  const std::vector<RankDump> dumps = {dump_of(0, 2, {unnamed(1), unnamed(2)}), dump_of(1, 2, {unnamed(1)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  CHECK_THAT(lines.at(0), Contains("submitted by rank 0, not by rank 1"));
  const std::vector<RankDump> equal = {dump_of(0, 2, {unnamed(1)}), dump_of(1, 2, {unnamed(3)})};
  CHECK_THAT(first_divergence(equal).at(0), StartsWith("no divergence"));
}

TEST_CASE("a set is held against the ranks that have used it") {
  const std::vector<RankDump> dumps = {dump_of(0, 3, {op("w", kProposed, 1, {}, 1)}),
                                       dump_of(1, 3, {op("w", kProposed, 1, {}, 1)}), dump_of(2, 3, {})};
  CHECK_THAT(first_divergence(dumps).at(0), StartsWith("no divergence"));
}

TEST_CASE("sets are matched by name, members and order, whatever their numbers are on each rank") {
  RankDump a = dump_of(0, 3, {op("w", kProposed, 1, {}, 1)});
  a.sets = {{1, "", {0, 1}}, {2, "", {0, 1}}, {3, "", {0, 2}}};
  RankDump b = dump_of(1, 3, {op("w", kProposed, 1, {}, 4)});
  b.sets = {{4, "", {0, 1}}, {5, "", {0, 1}}};
  const std::vector<RankDump> equal = {a, b, dump_of(2, 3, {op("v", kFinished, 2, 0)})};
  CHECK_THAT(first_divergence(equal).at(0), StartsWith("no divergence"));
  b.operations[0].set = 5;
  const std::vector<RankDump> other = {a, b, equal[2]};
  CHECK_THAT(first_divergence(other).at(0),
             Contains("of the process set of ranks 0-1 was submitted by rank 0, not by rank 1"));
  CHECK_THAT(first_divergence(other).at(1), Contains("of the process set of ranks 0-1, proposed"));
}

TEST_CASE("a set with a name is called by that, not by a number that differs between ranks") {
  RankDump a = dump_of(0, 3, {op("w", OpState::kStarted, 1, 5, 1)});
  a.sets = {{1, "pair", {0, 1}}};
  RankDump b = dump_of(1, 3, {op("w", OpState::kAgreed, 1, 5, 4)});
  b.sets = {{4, "pair", {0, 1}}};
  const std::vector<RankDump> dumps = {a, b, dump_of(2, 3, {})};
  CHECK_THAT(first_divergence(dumps).at(0), Contains("batch 5 of process set \"pair\" (ranks 0-1) is under way"));
}

TEST_CASE("nobody waits for a rank that has joined") {
  DumpedOp join = op("", kProposed, 1);
  join.kind = "join";
  const std::vector<RankDump> dumps = {dump_of(0, 2, {join}), dump_of(1, 2, {op("w", kProposed, 2)})};
  CHECK_THAT(first_divergence(dumps).at(0), StartsWith("no divergence"));
}

TEST_CASE("who has joined, whom they wait for and what these do is said where nothing else waits") {
  DumpedOp join = op("", kProposed, 1, {}, 3);
  join.kind = "join";
  RankDump first = dump_of(0, 4, {join});
  RankDump second = first;
  second.rank = 1;
  first.sets = second.sets = {{3, "trio", {0, 1, 2}}};
  RankDump third = dump_of(2, 4, {op("w", kFinished, 1, 0, 3)});
  third.sets = first.sets;
  third.activity = "train.py:31 in step";
  const std::vector<std::string> lines =
      first_divergence(std::vector<RankDump>{first, second, third, dump_of(3, 4, {})});
  REQUIRE(lines.size() == 2);
  CHECK(
      lines[0] ==
      "no divergence in what ranks submitted; join of process set \"trio\" (ranks 0-2): ranks 0-1 have joined and wait "
      "for rank 2");
  CHECK_THAT(lines[1], Contains("  rank 2 (host a, pid 102) has nothing of the set in flight; its last was") &&
                           Contains("it says: train.py:31 in step"));
}

TEST_CASE("an operation that only ranks without a record may lack is told with that") {
  const std::vector<RankDump> dumps = {dump_of(0, 2, {op("w", kProposed, 1)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], Contains("submitted by rank 0; nothing is known of rank 1"));
  CHECK_THAT(lines[1], Contains("nothing is known of rank 1: it gave no flight record"));
}

TEST_CASE("where ranks submitted the same, the oldest batch that has not ended everywhere is named") {
  const std::vector<RankDump> dumps = {
      dump_of(0, 3, {op("w", OpState::kStarted, 1, 5)}), dump_of(1, 3, {op("w", OpState::kAgreed, 1, 5)}),
      dump_of(2, 3, {op("w", OpState::kLaunched, 1, 5), op("v", OpState::kAgreed, 2, 6)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[0], Contains("batch 5 is under way (ring, allreduce \"w\" (f32, 10 elements))"));
  CHECK(lines[1] == "  agreed: rank 1");
  CHECK(lines[2] == "  started: rank 0");
  CHECK(lines[3] == "  launched: rank 2");
}

TEST_CASE("ranks that gave no record are named, and all of it is one JSON object") {
  const std::vector<RankDump> dumps = {dump_of(1, 4, {op("w", kFinished, 1, 0)})};
  const std::vector<std::string> lines = first_divergence(dumps);
  CHECK_THAT(lines.at(0), StartsWith("no divergence"));
  CHECK(lines.at(1) == "no flight record came from rank 0, ranks 2-3");
  const nlohmann::ordered_json merged = nlohmann::ordered_json::parse(merge_dumps(dumps).json);
  CHECK(merged.at("verdict").size() == 2);
  CHECK(merged.at("ranks").at(0).at("operations").at(0).at("name") == "w");
}

}  // namespace rueda::core
