// The membership of elastic jobs, one rule after the other. tests/sim searches the orders of many events at once.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/launcher/membership_job.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

/// A job in plan 3, in which newcomer 2, in the slot of worker 0 that died, is to meet worker 1.
struct WithNewcomer : Job {
  WithNewcomer() : Job(rules(2, 1), {{"a", 2}}) {
    join();
    membership.exited(0, kKilled);
    join();
    at(2000);
    membership.asked(2, 0);
    membership.asked(1, 2);
    take();
  }
};

}  // namespace

TEST_CASE("an elastic job starts a worker in every slot up to its limit, all of them in plan 1") {
  Job all(rules(2, 1));
  CHECK(all.members() == Ids{0, 1, 2, 3});
  const auto starts = all.all<StartWorker>();
  REQUIRE(starts.size() == 4);
  CHECK(starts[2].host == "b");
  CHECK(starts[2].slot == 0);
  CHECK(starts[2].rank == 2);
  CHECK(starts[2].size == 4);
  CHECK(all.membership.plan().why.empty());
  auto few = rules(2, 1);
  few.most = 3;
  CHECK(Job(few).members() == Ids{0, 1, 2});
}

TEST_CASE("the death of any member voids the plan, and the others are the next one at once") {
  for (const int64_t dead : {0, 1, 3}) {
    Job job(rules(4, 2));
    job.join();
    job.membership.exited(dead, kKilled);
    const auto voids = job.all<VoidPlan>();
    REQUIRE(voids.size() == 1);
    CHECK(voids[0].plan == 1);
    CHECK(voids[0].worker == dead);
    CHECK(voids[0].rank == dead);
    CHECK(voids[0].ground == VoidPlan::Ground::kDeath);
    CHECK(voids[0].cause == kKilled.how);
    Ids others{0, 1, 2, 3};
    std::erase(others, dead);
    CHECK(job.members() == others);
    const Plan& plan = job.membership.plan();
    CHECK(plan.number == 2);
    CHECK(plan.changes == kWorkersRemoved);
    CHECK_THAT(plan.why, Contains("killed by signal 9 (Killed)"));
    CHECK(plan.workers[0].holds_state == 1);
    CHECK(job.membership.stands());
  }
}

TEST_CASE("a second death while the next plan forms leads to the one after it") {
  Job job(rules(4, 2));
  job.join();
  job.membership.exited(0, kKilled);
  job.membership.began(1, 2);
  job.membership.exited(2, kKilled);
  CHECK(job.members() == Ids{1, 3});
  CHECK(job.membership.plan().number == 3);
  CHECK(job.membership.awaited() == Ids{1, 3});
  job.join();
  CHECK(job.membership.awaited().empty());
}

TEST_CASE("below --min-np the members wait for more, and the job ends when the time for that is over") {
  Job job(rules(4, 4));
  job.join();
  job.at(1000);
  job.membership.exited(1, kKilled);
  job.take();
  CHECK_FALSE(job.membership.stands());
  CHECK(job.membership.waits());
  job.at(600999);
  CHECK_FALSE(job.membership.over());
  job.at(601000);
  CHECK(job.end().exit_code == 137);
  CHECK_THAT(job.end().sentence, Contains("3 of at least 4 workers (--min-np)") && Contains("(--elastic-timeout)") &&
                                     Contains("killed by signal 9"));
}

TEST_CASE("below --min-np without any slot that could come the job ends at once") {
  Job job(rules(4, 3));
  job.join();
  job.membership.lost("b", "has been silent for 5 s");
  CHECK_THAT(job.end().sentence, Contains("2 of at least 3 workers (--min-np) are left") &&
                                     Contains("lost with its host, which has been silent for 5 s"));
  CHECK(job.end().exit_code == 1);
}

TEST_CASE("a slot rests after a failure, then a new worker starts there and joins once it is ready") {
  Job job(rules(4, 2));
  job.join();
  job.at(1000);
  job.membership.exited(1, kKilled);
  job.join();
  CHECK(job.all<StartWorker>().size() == 4);
  REQUIRE(job.membership.next_tick() == milliseconds(3000));
  job.at(3000);
  const auto starts = job.all<StartWorker>();
  REQUIRE(starts.size() == 5);
  CHECK(starts[4].worker == 4);
  CHECK(starts[4].host == "a");
  CHECK(starts[4].slot == 1);
  CHECK(job.all<NotifyMembers>().empty());  // it imports; nobody is interrupted for that
  job.membership.asked(4, 0);
  const auto notices = job.all<NotifyMembers>();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].changes == kWorkersAdded);
  CHECK(notices[0].plan == 3);
  CHECK(notices[0].newcomers == 1);
  job.membership.left(0, 2);
  job.membership.asked(0, 2);
  CHECK(job.members() == Ids{0, 4, 2, 3});
  const Plan& plan = job.membership.plan();
  CHECK(plan.changes == kWorkersAdded);
  CHECK(plan.workers[1].holds_state == 0);
  CHECK(job.all<VoidPlan>().back().ground == VoidPlan::Ground::kRequest);
  for (const int64_t late : {2, 3}) job.membership.asked(late, 2);  // for a plan that is void already
  CHECK(job.membership.plan().number == 3);
}

TEST_CASE("a plan that a worker has left by a goodbye is void on this ground, which the members are told") {
  Job job(rules(2, 1), {{"a", 2}});
  job.join();
  job.membership.asked(1, 1, VoidPlan::Ground::kGoodbye);
  job.membership.asked(0, 1);  // it comes too late to be a ground
  const auto voids = job.all<VoidPlan>();
  REQUIRE(voids.size() == 1);
  CHECK(voids[0].ground == VoidPlan::Ground::kGoodbye);
  CHECK(voids[0].worker == 1);
  CHECK(job.membership.plan().why == "worker 1 (host a) asked for a reset");
}

TEST_CASE("a worker that came later holds the state once it has formed a plan, and comes behind older ones") {
  WithNewcomer job;
  CHECK(job.members() == Ids{1, 2});  // slot 0 again, but without the state it is not rank 0
  job.join();
  job.membership.exited(1, kKilled);
  CHECK(job.members() == Ids{2});
  CHECK(job.membership.plan().workers[0].holds_state == 1);
}

TEST_CASE("the job ends if no worker is left that holds its state") {
  WithNewcomer job;
  job.membership.exited(1, {"exited with code 3", 3, false});  // before worker 2 has joined
  CHECK_THAT(job.end().sentence, Contains("no worker is left that holds the job's state"));
  CHECK(job.end().exit_code == 3);
}

TEST_CASE("a newcomer that meets a void plan within its init holds no state, though all had begun to form the plan") {
  const bool late = GENERATE(true, false);  // its word comes when the plan is void
  WithNewcomer job;
  for (const int64_t worker : {1, 2}) job.membership.began(worker, 3);
  job.membership.exited(1, {"exited with code 3", 3, false});
  if (late) job.membership.formed(2, 3);
  CHECK_THAT(job.end().sentence, Contains("no worker is left that holds the job's state"));
}

TEST_CASE("of two newcomers the one that has formed the plan holds the state") {
  Job job(rules(3, 1), {{"a", 3}});
  job.join();
  job.membership.exited(0, kKilled);
  job.membership.exited(1, kKilled);
  job.join();
  job.at(2000);
  for (const int64_t worker : {3, 4}) job.membership.asked(worker, 0);
  job.membership.asked(2, job.membership.plan().number);
  const Plan plan = job.membership.plan();
  REQUIRE(job.members() == Ids{2, 3, 4});
  for (const int64_t worker : {2, 3, 4}) job.membership.began(worker, plan.number);
  job.membership.formed(4, plan.number);
  job.membership.exited(2, kKilled);
  CHECK(job.members() == Ids{4, 3});
  CHECK(job.membership.plan().workers[0].holds_state == 1);
  CHECK(job.membership.plan().workers[1].holds_state == 0);
}

TEST_CASE("members that have said goodbye get time to ask for the next plan") {
  Job job(rules(3, 2), {{"a", 3}});
  job.join();
  for (const int64_t id : {0, 1}) job.membership.left(id, 1);
  job.membership.asked(0, 1);
  job.take();
  CHECK_FALSE(job.membership.stands());  // worker 1 is about to ask
  job.membership.asked(1, 1);
  CHECK(job.members() == Ids{0, 1, 2});
  job.join();
  job.membership.left(2, 2);
  job.membership.exited(1, kKilled);
  job.take();
  CHECK_FALSE(job.membership.stands());
  job.at(2000);
  CHECK(job.members() == Ids{0});  // worker 2 has shut down for good
  CHECK(job.membership.finished().empty());
  job.membership.exited(2, kWell);
  REQUIRE(job.membership.finished().size() == 1);
  CHECK(job.membership.finished().front().worker == 2);
  CHECK(job.membership.finished().front().plan == 2);
  CHECK(job.membership.last_begun() == 2);  // so nobody has gone on without it yet
  job.membership.began(0, 3);
  CHECK(job.membership.last_begun() == 3);
}

TEST_CASE("a job below --min-np whose workers have shut down succeeds, even if one of them never ends") {
  auto two = rules(3, 3);
  two.discovers = true;  // so that more may come
  Job job(two, {{"a", 3}});
  job.join();
  job.membership.exited(0, kKilled);  // below --min-np
  CHECK(job.membership.waits());
  for (const int64_t id : {1, 2}) job.membership.left(id, 1);
  job.membership.exited(1, kWell);
  job.at(2000);
  CHECK(job.all<EndJob>().empty());  // worker 2 is awaited
  job.at(600000);
  CHECK(job.end().exit_code == 0);
  CHECK(job.end().sentence.empty());
}

TEST_CASE("one worker that ends well makes the job a success, and the others are awaited") {
  Job job(rules(3, 3), {{"a", 3}});
  job.join();
  job.membership.left(0, 1);
  job.membership.exited(0, kWell);
  job.membership.exited(1, kKilled);
  job.take();
  CHECK(job.members() == Ids{2});  // --min-np no longer counts
  CHECK_FALSE(job.membership.over());
  job.membership.began(2, 2);
  job.at(60000);
  CHECK(job.all<StartWorker>().size() == 3);  // nobody is started any more
  job.membership.exited(2, kWell);
  CHECK(job.end().exit_code == 0);
  CHECK(job.membership.deaths().size() == 1);
}

TEST_CASE("a worker that has shut down and ends plans later has ended well, if it has asked for nothing since") {
  const WorkerExit late{"exited with code 0", 0, false};  // nothing is known any more of the plan that it was in
  for (const bool asks : {false, true}) {
    Job job(rules(4, 2));
    job.join();
    job.membership.asked(2, 1);
    job.join();
    job.membership.left(3, 2);
    if (asks) job.membership.asked(3, 2);
    job.at(2000);
    for (uint64_t plan : {2u, 3u, 4u}) {
      job.membership.asked(0, plan);
      for (const auto& worker : job.membership.plan().workers) {
        if (worker.id != 3) job.membership.began(worker.id, plan + 1);
      }
    }
    job.membership.exited(3, late);
    CHECK(job.membership.deaths().size() == (asks ? 1 : 0));
    for (const int64_t id : {0, 1, 2}) job.membership.exited(id, kWell);
    CHECK(job.end().exit_code == 0);
    CHECK(job.all<StartWorker>().size() == 4);
  }
}

TEST_CASE("exit code 0 in the middle of a plan is a failure, before any init it is none") {
  Job job(rules(2, 1), {{"a", 2}});
  job.join();
  job.membership.exited(1, {"exited with code 0", 0, false});
  CHECK(job.members() == Ids{0});
  CHECK(job.membership.deaths().at(0).cause == "exited with code 0 without shutdown");
  Job plain(rules(2, 1), {{"a", 2}});
  for (const int64_t id : {0, 1}) plain.membership.exited(id, {"exited with code 0", 0, false});
  CHECK(plain.end().exit_code == 0);
  Job late(rules(2, 1), {{"a", 2}});
  late.membership.exited(1, {"exited with code 0", 0, false});
  late.membership.began(0, 1);  // and would wait for worker 1 for ever
  CHECK(late.members() == Ids{0});
  CHECK(late.membership.deaths().at(0).cause == "exited with code 0 before it joined the job");
}

TEST_CASE("a member that does not join its next plan in time is stopped, and the others go on") {
  Job job(rules(3, 1), {{"a", 3}});
  job.join();
  job.membership.exited(0, kKilled);
  job.membership.began(1, 2);
  job.at(29999);
  CHECK(job.all<StopWorker>().empty());
  job.at(30000);
  const auto stops = job.all<StopWorker>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].worker == 2);
  CHECK(job.members() == Ids{1});
  CHECK_THAT(job.membership.deaths().back().cause, Contains("did not join plan 2 within 30 s (--rejoin-timeout)"));
  job.membership.exited(2, kKilled);
  CHECK(job.membership.deaths().size() == 2);  // its end is not a further failure
}

TEST_CASE("--reset-limit ends the job at the reset that is one too many") {
  auto limited = rules(4, 1);
  limited.resets = 1;
  Job job(limited);
  job.join();
  job.membership.exited(0, kKilled);
  job.join();
  CHECK_FALSE(job.membership.over());
  job.membership.asked(1, 2);
  CHECK_THAT(job.end().sentence, Contains("more than 1 times (--reset-limit)"));
}

TEST_CASE("a host gets no more workers after two failures within a minute, unless it is the last") {
  Job job(rules(4, 1));
  job.join();
  job.membership.exited(0, kKilled);
  job.join();
  job.membership.exited(1, kKilled);
  job.join();
  CHECK(job.all<Tell>().size() == 1);
  job.at(100000);
  CHECK(job.all<StartWorker>().size() == 4);
  for (const int64_t id : {2, 3}) job.membership.exited(id, kKilled);
  CHECK(job.all<Tell>().size() == 1);  // b is the last one
}

TEST_CASE("news of workers that are unknown, ended, or of plans that are no more changes nothing") {
  Job job(rules(3, 1), {{"a", 3}});
  job.join();
  job.membership.exited(0, kKilled);
  job.join();
  const size_t before = job.orders.size();
  job.membership.exited(0, kKilled);
  job.membership.asked(0, 1);
  job.membership.asked(1, 1);
  job.membership.asked(1, 99);
  job.membership.asked(77, 0);
  job.membership.began(1, 99);
  job.membership.left(1, 1);
  job.membership.evict(0, "it has been stopped");
  job.membership.lost("nowhere", "is gone");
  job.take();
  CHECK(job.orders.size() == before);
}

TEST_CASE("a worker has come once it has asked for a plan, and is away until it has joined the present one") {
  Job job(rules(2, 1), {{"a", 2}});
  CHECK_FALSE(job.membership.has_come(0));
  CHECK(job.membership.away() == Ids{0, 1});
  job.membership.asked(0, 0);
  job.membership.began(1, 1);
  CHECK(job.membership.has_come(0));
  CHECK(job.membership.has_come(1));
  CHECK_FALSE(job.membership.has_come(7));
  CHECK(job.membership.away() == Ids{0});
  job.membership.began(0, 1);
  CHECK(job.membership.away().empty());
  job.membership.exited(0, kKilled);
  CHECK_FALSE(job.membership.has_come(0));
  CHECK(job.membership.away() == Ids{1});  // of plan 2, which it has not joined yet
}

TEST_CASE("a job whose plans are given up again and again before they are formed ends with a sentence") {
  Job job(rules(2, 1), {{"a", 2}});
  for (uint64_t plan = 1; plan <= 100; ++plan) {
    CHECK_FALSE(job.membership.over());
    job.membership.began(0, plan);
    job.membership.asked(0, plan);
  }
  CHECK_THAT(job.end().sentence, Contains("100 plans were given up by their own workers before they were formed"));
  CHECK(job.end().exit_code == 1);
}
