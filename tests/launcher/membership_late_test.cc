// The membership of elastic jobs whose newcomers count as ready from their start (--admit discovered), and come late.

#include <catch2/catch.hpp>

#include "tests/launcher/membership_job.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

/// A job of worker 0 on host a, at 1 s in plan 2 with these newcomers, which have not come; worker 0 has joined it.
struct WithNewcomers : Job {
  explicit WithNewcomers(int newcomers, int least = 1) : Job(discovered(least), {{"a", 1}}) {
    join();
    at(1000);
    membership.listed({{"a", 1 + newcomers}});
    membership.asked(0, 1);
    membership.began(0, 2);
    take();
  }
  static MembershipRules discovered(int least) {
    auto some = rules(1, least);
    some.admission = Admission::kDiscovered;
    some.discovers = true;
    return some;
  }
  uint64_t plan() const { return membership.plan().number; }
};

}  // namespace

TEST_CASE("the members of a plan go on without newcomers that do not come in time, and none of them is ended") {
  WithNewcomers job(2);
  CHECK(job.members() == Ids{0, 1, 2});
  REQUIRE(job.membership.next_tick() == milliseconds(31000));
  job.at(30999);
  CHECK(job.plan() == 2);
  job.at(31000);
  CHECK(job.members() == Ids{0});
  CHECK(job.plan() == 3);
  const auto voids = job.all<VoidPlan>();
  REQUIRE(voids.size() == 2);
  CHECK(voids[1].worker == 1);
  CHECK(voids[1].ground == VoidPlan::Ground::kRequest);
  CHECK(voids[1].cause == "did not call init within 30 s (--rejoin-timeout)");
  CHECK(job.membership.plan().why == "worker 1 (host a) did not call init within 30 s (--rejoin-timeout)");
  const auto told = job.all<Tell>();
  REQUIRE(told.size() == 2);
  for (const size_t late : {0u, 1u}) {
    CHECK_THAT(told[late].sentence, Contains("worker " + std::to_string(late + 1) + " (host a) did not call init") &&
                                        Contains("joins once it does"));
  }
  job.membership.began(0, 3);
  job.at(1000000);
  CHECK(job.all<StopWorker>().empty());
  CHECK(job.all<RemoveWorker>().empty());
  CHECK(job.all<StartWorker>().size() == 3);  // their slots are theirs
  CHECK(job.membership.deaths().empty());
  CHECK(job.plan() == 3);
}

TEST_CASE("a newcomer that was too late joins once it is ready, and then has the time of every other worker") {
  const bool began = GENERATE(true, false);  // it found its plan before it heard that it was void
  WithNewcomers job(1);
  job.at(31000);
  job.membership.began(0, 3);
  const size_t notices = job.all<NotifyMembers>().size();
  if (began) job.membership.began(1, 2);
  CHECK(job.all<NotifyMembers>().size() == notices);
  job.at(40000);
  job.membership.asked(1, began ? 2 : 0);
  REQUIRE(job.all<NotifyMembers>().size() == notices + 1);
  CHECK(job.all<NotifyMembers>().back().changes == kWorkersAdded);
  CHECK(job.all<NotifyMembers>().back().newcomers == 1);
  job.membership.asked(0, 3);
  CHECK(job.members() == Ids{0, 1});
  CHECK(job.membership.plan().workers[1].holds_state == 0);
  job.membership.began(0, 4);
  job.at(69999);
  CHECK(job.all<StopWorker>().empty());
  job.at(70000);
  CHECK(job.all<StopWorker>().size() == 1);
  CHECK_THAT(job.membership.deaths().at(0).cause, Contains("did not join plan 4 within 30 s (--rejoin-timeout)"));
}

TEST_CASE("a newcomer that comes in time joins, and its time to join begins when it comes") {
  WithNewcomers job(1);
  job.at(30999);
  job.membership.asked(1, 0);
  job.at(60998);
  CHECK(job.plan() == 2);
  job.membership.began(1, 2);
  job.at(1000000);
  CHECK(job.plan() == 2);
  CHECK(job.membership.deaths().empty());
}

TEST_CASE("the time of a newcomer begins anew with each plan, so a member's death gives it more") {
  WithNewcomers job(2);
  job.at(10000);
  job.membership.exited(2, kKilled);
  CHECK(job.members() == Ids{0, 1});
  job.at(31000);  // worker 0 has not joined plan 3
  CHECK(job.plan() == 3);
  job.membership.began(0, 3);
  job.at(39999);
  CHECK(job.plan() == 3);
  job.at(40000);
  CHECK(job.members() == Ids{0, 3});  // worker 3 was started in the slot of worker 2 meanwhile
  CHECK(job.plan() == 4);
}

TEST_CASE("a member and a newcomer that are late together are both left behind by one plan") {
  auto some = WithNewcomers::discovered(1);
  some.wanted = 2;
  Job job(some, {{"a", 2}});
  job.join();
  job.membership.listed({{"a", 3}});
  job.membership.asked(0, 1);
  job.membership.began(0, 2);
  CHECK(job.members() == Ids{0, 1, 2});
  job.at(30000);
  CHECK(job.members() == Ids{0});
  CHECK(job.membership.plan().number == 3);
  REQUIRE(job.all<StopWorker>().size() == 1);
  CHECK(job.all<StopWorker>()[0].worker == 1);
}

TEST_CASE("below --min-np the members wait for a newcomer that is late as for one that is not there yet") {
  auto some = WithNewcomers::discovered(2);
  some.wanted = 2;
  Job job(some, {{"a", 2}});
  job.join();
  job.membership.exited(1, kKilled);
  job.at(2000);  // its slot has rested
  CHECK(job.members() == Ids{0, 2});
  job.membership.began(0, 2);
  job.at(32000);
  CHECK(job.membership.waits());
  CHECK(job.all<Tell>().back().sentence.find("1 of at least 2 workers (--min-np) are left") != std::string::npos);
  job.membership.asked(2, 0);
  CHECK(job.members() == Ids{0, 2});
  CHECK(job.membership.plan().number == 3);
}

TEST_CASE("a newcomer that was too late is removed with its slot, and awaited no more once the work is done") {
  WithNewcomers dropped(1);
  dropped.at(31000);
  dropped.membership.began(0, 3);
  dropped.membership.listed({{"a", 1}});
  REQUIRE(dropped.all<RemoveWorker>().size() == 1);
  CHECK(dropped.all<RemoveWorker>()[0].worker == 1);

  WithNewcomers done(1);
  done.at(31000);
  done.membership.began(0, 3);
  done.membership.began(1, 2);
  done.membership.left(0, 3);
  done.membership.exited(0, kWell);
  CHECK(done.end().exit_code == 0);
}

TEST_CASE("workers of the first start may take what they take until they come") {
  auto some = WithNewcomers::discovered(1);
  some.wanted = 2;
  Job job(some, {{"a", 2}});
  job.membership.began(0, 1);
  job.at(1000000);
  CHECK(job.membership.plan().number == 1);
  CHECK(job.all<StopWorker>().empty());
}

TEST_CASE("a job whose work is done does not wait for a newcomer that was put off after it had found an earlier plan") {
  WithNewcomers job(1);
  job.membership.asked(0, 2);
  REQUIRE(job.members() == Ids{0, 1});
  job.membership.began(0, 3);
  job.at(31000);
  REQUIRE(job.members() == Ids{0});
  job.membership.began(1, 2);
  job.membership.asked(1, 2);
  job.membership.began(0, 4);
  job.membership.left(0, 4);
  job.membership.exited(0, kWell);
  CHECK(job.end().exit_code == 0);
}
