#include "runtime/diagnosis/stall.h"

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

Stalled stalled(const std::string& what, std::vector<int> have, std::vector<int> lack, std::chrono::nanoseconds age,
                uint32_t set = 0) {
  return {set, what, std::move(have), std::move(lack), age};
}

StallJudge judge() { return {30s, 0s}; }

}  // namespace

TEST_CASE("a stall is spoken of at the warning time, once, and then at doubling intervals") {
  StallJudge judge_of_one = judge();
  std::vector<int> spoken;
  for (int second = 1; second <= 500; ++second) {
    const StallVerdict verdict = judge_of_one.look({stalled("w", {0}, {1}, std::chrono::seconds(second))});
    if (!verdict.reports.empty()) spoken.push_back(second);
    CHECK_FALSE(verdict.shut_down);
  }
  CHECK(spoken == std::vector<int>{30, 60, 120, 240, 480});
}

TEST_CASE("what waits for the same ranks is one report, with the oldest names first and the rest counted") {
  StallJudge judge_of_many = judge();
  std::vector<Stalled> all;
  for (int i = 0; i < 12; ++i)
    all.push_back(stalled("w" + std::to_string(i), {0, 1}, {2}, 40s + std::chrono::seconds(i)));
  all.push_back(stalled("v", {0}, {1, 2}, 35s));
  all.push_back(stalled("young", {0, 1}, {2}, 2s));
  const StallVerdict verdict = judge_of_many.look(all);
  REQUIRE(verdict.reports.size() == 2);
  CHECK(verdict.reports[0].what == std::vector<std::string>{"w11", "w10", "w9", "w8", "w7"});
  CHECK(verdict.reports[0].more == 7);
  CHECK(verdict.reports[0].age == 51s);
  CHECK(verdict.reports[1].what == std::vector<std::string>{"v"});
  CHECK(describe(verdict.reports[0], {{"a", "a", "b"}}) ==
        "stall for 51.0 s: w11, w10, w9, w8, w7 and 7 more: submitted by ranks 0-1 (host a), not by rank 2 (host b)");
}

TEST_CASE("in an elastic job a report names its plan, and the workers beside the ranks") {
  StallJudge judge_of_one = judge();
  const StallVerdict verdict = judge_of_one.look({stalled("w", {0, 2}, {1}, 40s)});
  CHECK(describe(verdict.reports.at(0), {{"a", "a", "a"}, {0, 2, 3}, 5}) ==
        "stall for 40.0 s in plan 5: w: submitted by rank 0 (worker 0, host a), rank 2 (worker 3, host a), not by "
        "rank 1 (worker 2, host a)");
}

TEST_CASE("more groups than a screen holds are counted") {
  StallJudge judge_of_many = judge();
  std::vector<Stalled> all;
  for (int i = 1; i <= 20; ++i) all.push_back(stalled("w", {0}, {i}, 40s));
  const StallVerdict verdict = judge_of_many.look(all);
  CHECK(verdict.reports.size() == StallJudge::kMostReports);
  CHECK(verdict.more == 20 - StallJudge::kMostReports);
}

TEST_CASE("ranks that wait for each other have diverged, and are told once what each submitted") {
  StallJudge judge_of_two = judge();
  const StallVerdict verdict = judge_of_two.look({stalled("a", {0, 1}, {2}, 40s), stalled("b", {2}, {0, 1}, 39s)});
  REQUIRE(verdict.reports.size() == 1);
  CHECK(verdict.reports[0].divergence);
  CHECK(
      describe(verdict.reports[0], {}) ==
      "divergence for 40.0 s: a: submitted by ranks 0-1, not by rank 2, which submitted b instead: each side waits for "
      "the other");
}

TEST_CASE("ranks that submitted nothing are told apart from those that submitted something else") {
  StallJudge judge_of_three = judge();
  const StallVerdict verdict = judge_of_three.look(
      {stalled("a", {0}, {1, 2, 3}, 40s), stalled("b", {2}, {0, 1, 3}, 39s), stalled("c", {2}, {0}, 9s)});
  REQUIRE(verdict.reports.size() == 1);
  CHECK(describe(verdict.reports[0], {}) ==
        "divergence for 40.0 s: a: submitted by rank 0, not by ranks 1-3; rank 2 submitted b, c instead: each "
        "side "
        "waits for the other");
}

TEST_CASE("of two sides the one of fewer ranks, else of higher ones, is said to have left the other") {
  StallJudge judge_of_two = judge();
  const StallVerdict odd = judge_of_two.look({stalled("b", {2}, {0, 1}, 41s), stalled("a", {0, 1}, {2}, 40s)});
  REQUIRE(odd.reports.size() == 1);
  CHECK(odd.reports[0].lack == std::vector<int>{2});
  StallJudge even = judge();
  const StallVerdict verdict = even.look({stalled("b", {1}, {0}, 41s), stalled("a", {0}, {1}, 40s)});
  REQUIRE(verdict.reports.size() == 1);
  CHECK(verdict.reports[0].lack == std::vector<int>{1});
}

TEST_CASE("ranks that are behind in the same order have not diverged") {
  StallJudge judge_of_two = judge();
  const StallVerdict behind = judge_of_two.look({stalled("a", {0}, {1, 2}, 40s), stalled("b", {0, 1}, {2}, 40s)});
  for (const StallReport& report : behind.reports) CHECK_FALSE(report.divergence);
  StallJudge of_sets = judge();
  for (const StallReport& report :
       of_sets.look({stalled("a", {0}, {1, 2}, 40s, 1), stalled("b", {0, 1}, {2}, 40s, 2)}).reports) {
    CHECK_FALSE(report.divergence);
  }
}

TEST_CASE("ranks that wait for each other in two sets have diverged, too") {
  Stalled in_pair = stalled("b", {1}, {0}, 39s, 2);
  in_pair.of = " of process set \"pair\" (ranks 0-1)";
  StallJudge judge_of_sets = judge();
  const StallVerdict verdict = judge_of_sets.look({stalled("a", {0, 2}, {1}, 40s), in_pair});
  REQUIRE(verdict.reports.size() == 1);
  CHECK(
      describe(verdict.reports[0], {}) ==
      "divergence for 40.0 s: a: submitted by rank 0, rank 2, not by rank 1, which submitted b of process set \"pair\" "
      "(ranks 0-1) instead: each side waits for the other");
  in_pair.age = 41s;
  StallJudge other_way = judge();
  const StallVerdict likewise = other_way.look({stalled("a", {0, 2}, {1}, 40s), in_pair});
  REQUIRE(likewise.reports.size() == 1);
  CHECK(likewise.reports[0].instead == std::vector<std::string>{"b of process set \"pair\" (ranks 0-1)"});
}

TEST_CASE("a stall in a set is told with what names the set, not with its number") {
  StallJudge judge_of_set = judge();
  Stalled in_trio = stalled("w", {0}, {1}, 40s, 17);
  in_trio.of = " of process set \"trio\" (ranks 0-2)";
  const StallVerdict verdict = judge_of_set.look({in_trio});
  CHECK(describe(verdict.reports.at(0), {}) ==
        "stall for 40.0 s: w of process set \"trio\" (ranks 0-2): submitted by rank 0, not by rank 1");
}

TEST_CASE("a stall that ended and came back is spoken of at the warning time again") {
  StallJudge again = judge();
  CHECK(again.look({stalled("w", {0}, {1}, 70s)}).reports.size() == 1);
  CHECK(again.look({}).reports.empty());
  CHECK(again.look({stalled("w", {0}, {1}, 29s)}).reports.empty());
  CHECK(again.look({stalled("w", {0}, {1}, 31s)}).reports.size() == 1);
}

TEST_CASE("a set that nobody uses yet is told of, and ends no job") {
  StallJudge ending(30s, 100s);
  Stalled making = stalled("the making of a set", {0}, {1}, 200s);
  making.kind = StallKind::kSet;
  const StallVerdict verdict = ending.look({making});
  CHECK(verdict.reports.size() == 1);
  CHECK_FALSE(verdict.shut_down);
}

TEST_CASE("a join that waits is a report of its own, at doubling intervals, and ends the job at the shutdown time") {
  StallJudge ending(30s, 100s);
  std::vector<int> spoken;
  for (int second = 1; second < 100; ++second) {
    Stalled join{.set = 5, .what = "join", .have = {0, 1}, .lack = {2}, .age = std::chrono::seconds(second)};
    join.kind = StallKind::kJoin;
    join.of = " of process set \"trio\" (ranks 0-2)";
    const StallVerdict verdict = ending.look({join});
    CHECK_FALSE(verdict.shut_down);
    if (verdict.reports.empty()) continue;
    spoken.push_back(second);
    CHECK_THAT(describe(verdict.reports.at(0), {{"a", "a", "b"}}),
               Contains("join of process set \"trio\" (ranks 0-2): ranks 0-1 (host a) have joined and wait for rank 2 "
                        "(host b)"));
  }
  CHECK(spoken == std::vector<int>{30, 60});
  Stalled join{.set = 5, .what = "join", .have = {0, 1}, .lack = {2}, .age = 100s};
  join.kind = StallKind::kJoin;
  CHECK(ending.look({join}).shut_down);
}

TEST_CASE("a batch that runs is told of by itself, begins anew with the next of its set, and ends no job") {
  StallJudge ending(30s, 100s);
  Stalled running{.set = 5, .what = "w", .have = {0, 1}, .age = 200s};
  running.kind = StallKind::kRunning;
  CHECK_FALSE(ending.look({running}).shut_down);
  CHECK(ending.look({running}).reports.empty());
  running.batch = 1;
  running.age = 30s;
  const StallVerdict next = ending.look({running});
  REQUIRE(next.reports.size() == 1);
  CHECK(next.reports[0].batch == 1);
  CHECK(describe(next.reports[0], {}) == "stall for 30.0 s: w is running");
}

TEST_CASE("at the shutdown time the verdict is the end, with the report that says why") {
  StallJudge ending(30s, 100s);
  CHECK_FALSE(ending.look({stalled("w", {0}, {1}, 70s)}).shut_down);
  const StallVerdict verdict = ending.look({stalled("w", {0}, {1}, 101s)});
  CHECK(verdict.shut_down);
  REQUIRE(verdict.reports.size() == 1);
  CHECK(verdict.reports[0].what == std::vector<std::string>{"w"});
}

}  // namespace rueda::core
