#include <catch2/catch.hpp>
#include <limits>

#include "runtime/store/death.h"
#include "runtime/store/plan.h"

namespace rueda::core {
namespace {

Plan some_plan() {
  return {7,
          "worker 2 (host b, slot 0, pid 9) died: killed by signal 9 (Killed)",
          kWorkersRemoved | kWorkersAdded,
          {{0, "a", 0, 1}, {3, "a", 1, 1}, {1, "b", 1, 1}, {5, "c", 0, 0}}};
}

bool readable(const Plan& plan) { return decode_plan(encode(plan)).has_value(); }

TEST_CASE("a plan says the same after it has been sent") {
  const auto plan = decode_plan(encode(some_plan()));
  REQUIRE(plan);
  CHECK(*plan == some_plan());
}

TEST_CASE("a plan knows each worker's rank and how many share its host") {
  const Plan plan = some_plan();
  CHECK(plan.rank_of(0) == 0);
  CHECK(plan.rank_of(1) == 2);
  CHECK(plan.rank_of(5) == 3);
  CHECK(plan.rank_of(2) == -1);
  CHECK(plan.workers_beside(0) == 2);
  CHECK(plan.workers_beside(2) == 1);
}

TEST_CASE("a worker that comes to a plan is behind the others of its host, and last on a host of its own") {
  const Plan beside = some_plan().with({9, "a", 2, 0});
  CHECK(beside.workers.size() == 5);
  CHECK(beside.rank_of(9) == 2);
  CHECK(beside.rank_of(1) == 3);
  CHECK(beside.number == some_plan().number);
  CHECK(some_plan().with({9, "d", 0, 0}).rank_of(9) == 4);
}

TEST_CASE("a plan that breaks a limit cannot be read") {
  Plan plan = some_plan();
  REQUIRE(readable(plan));
  SECTION("number 0") { plan.number = 0; }
  SECTION("no worker") { plan.workers.clear(); }
  SECTION("a repeated id") { plan.workers[3].id = plan.workers[1].id; }
  SECTION("a negative id") { plan.workers[0].id = -1; }
  SECTION("a negative slot") { plan.workers[0].slot = -1; }
  SECTION("a state that is neither held nor not") { plan.workers[0].holds_state = 2; }
  SECTION("an unknown change") { plan.changes = 4; }
  SECTION("too many workers") {
    for (size_t i = 0; i <= kMostPlannedWorkers; ++i) plan.workers.push_back({static_cast<int64_t>(i) + 10, "a", 0, 0});
  }
  CHECK_FALSE(readable(plan));
}

TEST_CASE("half a plan, more than a plan, and something else cannot be read") {
  const std::string bytes = encode(some_plan());
  for (size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(decode_plan(bytes.substr(0, size)));
  CHECK_FALSE(decode_plan(bytes + "x"));
  CHECK_FALSE(decode_plan(encode(MembershipNotice{1, 1, 0, 0})));
}

TEST_CASE("a request says the same after it has been sent, and nothing else can be read as one") {
  for (const PlanRequest& request : {PlanRequest{0, false}, PlanRequest{7, false}, PlanRequest{7, true}}) {
    CHECK(decode_request(encode(request)) == request);
  }
  for (const char* wrong : {"", " in order", "x", "7x", "7 in", "7 in order ", "-1", "99999999999999999999"}) {
    CHECK_FALSE(decode_request(wrong));
  }
}

TEST_CASE("a sentence that is too long does not make a plan unreadable") {
  Plan plan = some_plan();
  plan.why.assign(100000, 'x');
  const auto read = decode_plan(encode(plan));
  REQUIRE(read);
  CHECK(read->why.size() == 4096);
  CHECK(read->workers == plan.workers);
}

TEST_CASE("a notice says the same after it has been sent, and breaks no limit") {
  const MembershipNotice notice{8, kWorkersAdded, 2, 1.5};
  const auto read = decode_notice(encode(notice));
  REQUIRE(read);
  CHECK(*read == notice);
  for (const MembershipNotice& wrong :
       {MembershipNotice{0, 1, 0, 0}, MembershipNotice{8, 8, 0, 0}, MembershipNotice{8, 1, 0, -1},
        MembershipNotice{8, 1, 0, std::numeric_limits<double>::infinity()},
        MembershipNotice{8, 1, 0, std::numeric_limits<double>::quiet_NaN()}}) {
    CHECK_FALSE(decode_notice(encode(wrong)));
  }
  CHECK_FALSE(decode_notice(encode(notice).substr(1)));
  CHECK_FALSE(decode_notice(encode(some_plan())));
}

TEST_CASE("sets say the same after they have been sent, and half of them cannot be read") {
  const PlannedSets sets{{{0, 1}, {7}, {}}};
  const std::string bytes = encode(sets);
  const auto read = decode_planned_sets(bytes);
  REQUIRE(read);
  CHECK(*read == sets);
  for (size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(decode_planned_sets(bytes.substr(0, size)));
  CHECK_FALSE(decode_planned_sets(encode(PlannedSets{{{-1}}})));
}

TEST_CASE("a verdict that nobody died has the sentence of its cause alone") {
  for (const DeathKind kind : {DeathKind::kOver, DeathKind::kLeft, DeathKind::kDied}) {
    const DeathVerdict verdict{0, 2, "b", 9, "worker 3 (host b) asked for a reset", kind};
    const auto read = decode_death(encode(verdict));
    REQUIRE(read);
    CHECK(read->kind == kind);
    CHECK(read->status().code() == Code::kPeerLost);
    const std::string died = kind == DeathKind::kDied ? "rank 2 (host b, pid 9) died: " : "";
    CHECK(read->status().sentence() == died + verdict.cause);
  }
  std::string unknown = encode(DeathVerdict{0, 2, "b", 9, "cause", DeathKind::kLeft});
  ++unknown[unknown.size() - 1 - sizeof(int64_t)];
  CHECK_FALSE(decode_death(unknown));
}

TEST_CASE("a verdict of an elastic job names the worker beside the rank") {
  const auto read = decode_death(encode(DeathVerdict{0, 2, "b", 9, "killed", DeathKind::kDied, 5}));
  REQUIRE(read);
  CHECK(read->status().sentence() == "rank 2 (worker 5, host b, pid 9) died: killed");
  CHECK_FALSE(decode_death(encode(DeathVerdict{0, 2, "b", 9, "killed", DeathKind::kDied, -2})));
}

}  // namespace
}  // namespace rueda::core
