// The membership of elastic jobs whose hosts announce that they are about to go.

#include <catch2/catch.hpp>

#include "tests/launcher/membership_job.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

const WorkerExit kTerminated{"killed by signal 15 (Terminated)", 143, false};

/// A job of workers 0 and 1 on host a, 2 and 3 on host b, in plan 1, whose host b is about to go.
struct Preempted : Job {
  explicit Preempted(int least = 1) : Job(rules(4, least)) {
    join();
    at(1000);
    membership.preempted("b");
    take();
  }
};

}  // namespace

TEST_CASE("the workers of a host that is about to go leave with the next plan, and nothing starts there") {
  Preempted job;
  REQUIRE(job.all<NotifyMembers>().size() == 1);
  CHECK(job.all<NotifyMembers>()[0].changes == kWorkersRemoved);
  CHECK(job.all<NotifyMembers>()[0].removal == milliseconds(25000));
  CHECK(job.membership.stands());
  job.membership.preempted("b");
  CHECK(job.all<NotifyMembers>().size() == 1);
  for (const int64_t id : {0, 1, 2, 3}) job.membership.asked(id, 1);
  CHECK(job.members() == Ids{0, 1});
  job.join();
  for (const int64_t id : {2, 3}) job.membership.exited(id, {"exited with code 0", 0, false});
  job.membership.lost("b", "is no longer the job's");
  job.at(100000);
  CHECK(job.all<StartWorker>().size() == 4);
  CHECK(job.all<StopWorker>().empty());
  CHECK(job.membership.deaths().empty());
  CHECK(job.membership.plan().number == 2);
}

TEST_CASE("workers that still run when their host's time is over are ended, which is no failure") {
  Preempted job;
  job.at(25999);
  CHECK(job.all<StopWorker>().empty());
  job.at(26000);
  REQUIRE(job.all<StopWorker>().size() == 2);
  CHECK(job.members() == Ids{0, 1});
  REQUIRE(job.all<VoidPlan>().size() == 1);
  CHECK_THAT(job.all<VoidPlan>()[0].cause, Contains("it still ran 25 s after the notice (--removal-timeout)"));
  for (const int64_t id : {2, 3}) job.membership.exited(id, kTerminated);
  CHECK(job.membership.deaths().empty());
}

TEST_CASE("a worker that a signal or a shutdown of its machine ends after the notice has not failed, a crash has") {
  for (const WorkerExit& how : {kTerminated, kKilled, WorkerExit{"exited with code 0", 0, false}}) {
    Preempted job;
    job.membership.exited(2, how);
    CHECK(job.members() == Ids{0, 1});
    CHECK(job.membership.deaths().empty());
    job.membership.lost("b", "has lost its agent");
    CHECK(job.membership.deaths().empty());
  }
  Preempted job;
  job.membership.exited(2, {"killed by signal 11 (Segmentation fault)", 139, false});
  CHECK(job.membership.deaths().size() == 1);
}

TEST_CASE("a host that is lost after its notice takes its workers along, and that is no failure") {
  Preempted job;
  job.membership.lost("b", "has been silent for 5 s");
  CHECK(job.members() == Ids{0, 1});
  CHECK(job.membership.deaths().empty());
  job.join();
  job.membership.reached("b");
  CHECK(job.all<StartWorker>().size() == 6);  // it is spared, or another machine has its name
  job.at(200000);
  CHECK(job.all<StopWorker>().empty());
}

TEST_CASE("members go on if too few would be left, until the host's time is over") {
  Preempted job(3);
  CHECK(job.all<NotifyMembers>().empty());
  job.at(26000);
  CHECK(job.all<StopWorker>().size() == 2);
  CHECK(job.membership.plan().number == 1);
  CHECK_THAT(job.end().sentence, Contains("2 of at least 3 workers (--min-np) are left, because worker 2 (host b) left "
                                          "with its host, which is about to go"));
}

TEST_CASE("a notice that comes after the host left the list brings the members the time that is left") {
  auto discovering = rules(4, 1);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.listed({{"a", 2}});
  job.membership.preempted("b");
  const auto notices = job.all<NotifyMembers>();
  REQUIRE(notices.size() == 2);
  CHECK(notices[0].removal == milliseconds(0));
  CHECK(notices[1].removal == milliseconds(25000));
}
