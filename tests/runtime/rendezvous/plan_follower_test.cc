// What one worker hears from hvdrun's store. The test is hvdrun.
#include "runtime/rendezvous/plan_follower.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/store/death.h"
#include "runtime/store/store_keys.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

/// A store with plans, and a worker that listens.
struct Hearing {
  explicit Hearing(int64_t id = 1) : worker(id) {
    StoreServerOptions options;
    options.waits = StoreWaits::kForJobsToEnd;
    server = StoreServer::start(options).value();
  }
  void listen(std::function<void(const MembershipNotice&)> on_notice = {}) {
    members =
        PlanFollower::start({"127.0.0.1", server->port(), "job", {}}, worker, late(), std::move(on_notice)).value();
  }
  void publish(uint64_t number, const std::vector<int64_t>& ids, const std::string& why = "one died") {
    Plan plan;
    plan.number = number;
    plan.why = why;
    for (const int64_t id : ids) plan.workers.push_back({id, "a", 0, 0});
    REQUIRE(server->set(plan_key("job", number), encode(plan)).ok());
    REQUIRE(server->add(plans_key("job"), 1).ok());
  }
  bool readable(int timeout_ms) {
    pollfd notice{members->notice_fd().value(), POLLIN, 0};
    return ::poll(&notice, 1, timeout_ms) == 1;
  }

  int64_t worker;
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<PlanFollower> members;
};

TEST_CASE("a worker finds the plan that is there, and waits for one that is not") {
  Hearing hearing;
  hearing.publish(1, {0, 1});
  hearing.listen();
  CHECK(hearing.members->await_plan(0, late()).value().number == 1);
  CHECK(hearing.members->await_plan(1, soon()).status().code() == Code::kTimeout);
  std::thread hvdrun([&] { hearing.publish(2, {1}); });
  const auto next = hearing.members->await_plan(1, late());
  hvdrun.join();
  REQUIRE(next.ok());
  CHECK(next.value().workers.size() == 1);
}

TEST_CASE("a worker that comes late finds the latest plan though older ones are removed") {
  Hearing hearing;
  for (uint64_t number = 1; number <= 9; ++number) hearing.publish(number, {0, 1});
  for (uint64_t number = 1; number <= 7; ++number) REQUIRE(hearing.server->remove(plan_key("job", number)).ok());
  hearing.listen();
  CHECK(hearing.members->await_plan(8, late()).value().number == 9);
  hearing.publish(10, {1, 0});
  CHECK(hearing.members->await_plan(9, late()).value().rank_of(1) == 0);
}

TEST_CASE("a worker sees the present plan though it is not in it") {
  Hearing hearing;
  hearing.publish(1, {0});
  hearing.publish(2, {0, 5});
  hearing.listen();
  const auto present = hearing.members->present(late());
  REQUIRE(present.ok());
  CHECK(present.value().rank_of(1) == -1);
  REQUIRE(hearing.server->set(removed_key("job", 1), "1").ok());
  CHECK(hearing.members->await_plan(0, late()).status().code() == Code::kRemoved);
  CHECK(hearing.members->present(late()).status().code() == Code::kRemoved);
}

// Its answer comes before the present plan's, so that a look in between would find it.
TEST_CASE("the present plan is never the one before it, which hvdrun keeps for a while") {
  Hearing hearing;
  hearing.publish(1, {0});
  hearing.publish(2, {0, 5});
  for (int turn = 0; turn < 100; ++turn) {
    hearing.listen();
    CHECK(hearing.members->present(late()).value().number == 2);
  }
}

TEST_CASE("a worker that a plan leaves out waits for a later one, and one that is removed is told so") {
  Hearing hearing;
  hearing.listen();
  hearing.publish(1, {0});
  CHECK(hearing.members->await_plan(0, soon()).status().code() == Code::kTimeout);
  hearing.publish(2, {0, 1});
  CHECK(hearing.members->await_plan(0, late()).value().number == 2);
  REQUIRE(hearing.server->set(removed_key("job", 1), "1").ok());
  const auto none = hearing.members->await_plan(2, late());
  CHECK(none.status().code() == Code::kRemoved);
  CHECK_THAT(none.status().sentence(), Contains("worker 1"));
}

TEST_CASE("the end of a plan is raised by its verdict, by a later plan, and at once if it is over already") {
  Hearing hearing;
  hearing.listen();
  hearing.publish(1, {0, 1});
  REQUIRE(hearing.members->await_plan(0, late()).ok());
  const auto first = hearing.members->take(1).value();
  CHECK_FALSE(first->raised());
  REQUIRE(hearing.server->set(death_key("job.1"), encode(DeathVerdict{0, 0, "a", 7, "killed"})).ok());
  pollfd bell{first->fd(), POLLIN, 0};
  REQUIRE(::poll(&bell, 1, 120'000) == 1);
  CHECK(first->abort().why().sentence() == "rank 0 (host a, pid 7) died: killed");
  hearing.publish(2, {0, 1});
  REQUIRE(hearing.members->await_plan(1, late()).ok());
  const auto second = hearing.members->take(2).value();
  CHECK_FALSE(second->raised());
  hearing.publish(3, {0, 1}, "a host left");
  REQUIRE(hearing.members->await_plan(2, late()).ok());
  CHECK(second->abort().why().sentence() == "a host left");
  const auto late_one = hearing.members->take(2).value();
  CHECK(late_one->raised());
}

TEST_CASE("a plan that a worker has left in order ends in order, and every other end of a plan is at once") {
  Hearing hearing;
  hearing.listen();
  hearing.publish(1, {0, 1});
  REQUIRE(hearing.members->await_plan(0, late()).ok());
  const auto cutoff = hearing.members->take(1).value();
  Ending expected = Ending::kAtOnce;
  SECTION("left in order") {
    expected = Ending::kInOrder;
    const DeathVerdict left{0, 0, "a", 0, "worker 0 asked for a reset", DeathKind::kLeft};
    REQUIRE(hearing.server->set(death_key("job.1"), encode(left)).ok());
  }
  SECTION("over") {
    const DeathVerdict over{0, 0, "a", 0, "worker 0 has shut down", DeathKind::kOver};
    REQUIRE(hearing.server->set(death_key("job.1"), encode(over)).ok());
  }
  SECTION("died") {
    REQUIRE(hearing.server->set(death_key("job.1"), encode(DeathVerdict{0, 0, "a", 7, "killed"})).ok());
  }
  SECTION("a later plan") { hearing.publish(2, {0, 1}); }
  pollfd bell{cutoff->fd(), POLLIN, 0};
  REQUIRE(::poll(&bell, 1, 120'000) == 1);
  CHECK(cutoff->ending() == expected);
  // The first end counts: a later one changes neither reason nor ending.
  const std::string why = cutoff->abort().why().sentence();
  CHECK_FALSE(cutoff->raise({Code::kPeerLost, "too late"}, Ending::kAtOnce));
  CHECK(cutoff->ending() == expected);
  CHECK(cutoff->abort().why().sentence() == why);
}

TEST_CASE("notices are counted, readable until they are read, and pending until their plan is taken") {
  Hearing hearing;
  hearing.listen();
  CHECK(hearing.members->pending().heard == 0);
  CHECK_FALSE(hearing.readable(0));
  REQUIRE(hearing.server->set(change_key("job", 1), encode(MembershipNotice{2, kWorkersAdded, 3, 0})).ok());
  REQUIRE(hearing.readable(120'000));
  REQUIRE(hearing.server->set(change_key("job", 2), encode(MembershipNotice{4, kWorkersRemoved, 0, 1e-9})).ok());
  PendingPlans pending = hearing.members->pending();
  while (pending.heard < 2) {
    REQUIRE(hearing.readable(120'000));
    pending = hearing.members->pending();
  }
  CHECK_FALSE(hearing.readable(0));
  CHECK(pending.plan == 4);
  CHECK(pending.changes == (kWorkersAdded | kWorkersRemoved));
  CHECK(pending.newcomers == 0);
  CHECK(pending.seconds_to_removal > 0);  // its time has passed, and it is still a removal
  REQUIRE(hearing.server->set(change_key("job", 3), encode(MembershipNotice{2, 0, 0, 0})).ok());
  while (pending.heard < 3) {
    REQUIRE(hearing.readable(120'000));
    pending = hearing.members->pending();
  }
  CHECK(pending.changes == kWorkersRemoved);  // the third takes the first back
  static_cast<void>(hearing.members->take(2).value());
  CHECK(hearing.members->pending().changes == kWorkersRemoved);
  static_cast<void>(hearing.members->take(4).value());
  CHECK(hearing.members->pending().plan == 0);
  CHECK(hearing.members->pending().heard == 3);
}

TEST_CASE("notices of plans that were not taken are handed on before they are pending") {
  Mutex mutex;
  Condition changed;
  std::vector<MembershipNotice> heard;
  std::vector<int64_t> pending;
  Hearing hearing;
  hearing.listen([&](const MembershipNotice& notice) {
    const int64_t before = hearing.members->pending().heard;
    MutexLock lock(mutex);
    heard.push_back(notice);
    pending.push_back(before);
    changed.notify_all();
  });
  REQUIRE(hearing.members->take(2).ok());
  const std::vector<MembershipNotice> told = {
      {2, kWorkersAdded, 1, 0}, {3, kWorkersAdded, 3, 0}, {3, 0, 0, 0}, {4, kWorkersRemoved, 0, 1}};
  for (size_t i = 0; i < told.size(); ++i) {
    REQUIRE(hearing.server->set(change_key("job", static_cast<int64_t>(i) + 1), encode(told[i])).ok());
  }
  MutexLock lock(mutex);
  while (heard.size() + 1 < told.size()) changed.wait(mutex);
  CHECK(heard == std::vector<MembershipNotice>(told.begin() + 1, told.end()));
  CHECK(pending == std::vector<int64_t>{1, 2, 3});
}

TEST_CASE("a worker that cannot take a notice waits for nothing more") {
  Hearing hearing;
  hearing.publish(1, {0, 1});
  hearing.listen([](const MembershipNotice&) { throw std::bad_alloc(); });
  CHECK(hearing.members->await_plan(0, late()).value().number == 1);
  REQUIRE(hearing.server->set(change_key("job", 1), encode(MembershipNotice{2, kWorkersAdded, 1, 0})).ok());
  const Status next = hearing.members->await_plan(1, late()).status();
  CHECK(next.code() == Code::kSystem);
  CHECK_THAT(next.sentence(), Contains("out of memory"));
}

TEST_CASE("a worker that comes late hears the last notice though older ones are removed") {
  Hearing hearing;
  for (int number = 1; number <= 3; ++number) {
    const MembershipNotice notice{static_cast<uint64_t>(number) + 1, kWorkersAdded, 1, 0};
    REQUIRE(hearing.server->set(change_key("job", number), encode(notice)).ok());
    REQUIRE(hearing.server->add(changes_key("job"), 1).ok());
  }
  for (const int number : {1, 2}) REQUIRE(hearing.server->remove(change_key("job", number)).ok());
  hearing.listen();
  REQUIRE(hearing.readable(120'000));
  const PendingPlans pending = hearing.members->pending();
  CHECK(pending.heard == 3);
  CHECK(pending.plan == 4);
  REQUIRE(hearing.server->set(change_key("job", 4), encode(MembershipNotice{5, kWorkersRemoved, 0, 0})).ok());
  REQUIRE(hearing.readable(120'000));
  CHECK(hearing.members->pending().heard == 4);
}

TEST_CASE("whoever waits for a plan hears that hvdrun is gone, that the job is over, or that a plan is unreadable") {
  Hearing hearing;
  hearing.listen();
  hearing.publish(1, {1});
  REQUIRE(hearing.members->await_plan(0, late()).ok());
  const auto cutoff = hearing.members->take(1).value();
  SECTION("hvdrun is gone") {
    hearing.server.reset();
    const auto lost = hearing.members->await_plan(1, late());
    CHECK(lost.status().code() == Code::kSystem);
    CHECK_THAT(lost.status().sentence(), Contains("worker 1 has lost hvdrun's store at 127.0.0.1"));
    CHECK_FALSE(cutoff->raised());
  }
  SECTION("the job is over") {
    const DeathVerdict over{0, 0, "a", 0, "fewer than 2 slots for 600 s", DeathKind::kOver};
    REQUIRE(hearing.server->set(death_key("job"), encode(over)).ok());
    CHECK(hearing.members->await_plan(1, late()).status().sentence() == over.cause);
    CHECK(cutoff->abort().why().sentence() == over.cause);
  }
  SECTION("a plan is unreadable") {
    REQUIRE(hearing.server->set(plan_key("job", 2), "nonsense").ok());
    const auto unreadable = hearing.members->await_plan(1, late());
    CHECK(unreadable.status().code() == Code::kMismatch);
    CHECK_THAT(unreadable.status().sentence(), Contains("hvdrun's plan 2 cannot be read"));
  }
}

TEST_CASE("a worker that asks for the next plan says which one it has left") {
  Hearing hearing;
  hearing.listen();
  hearing.members->ask({7, false});
  CHECK(decode_request(hearing.server->get(reset_key("job", 1), late()).value()) == PlanRequest{7, false});
}

}  // namespace
}  // namespace rueda::core
