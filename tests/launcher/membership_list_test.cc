// The membership of elastic jobs whose hosts come and go by a list.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/launcher/membership_job.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;

TEST_CASE("a worker whose host leaves the list goes on until its next plan, and is then removed") {
  auto discovering = rules(4, 1);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.listed({{"b", 2}, {"c", 1}});
  CHECK(job.members() == Ids{0, 1, 2, 3});
  REQUIRE(job.all<NotifyMembers>().size() == 1);
  CHECK(job.all<NotifyMembers>()[0].changes == kWorkersRemoved);
  CHECK(job.all<StartWorker>().size() == 4);  // c is not reached yet
  job.membership.reached("c");
  CHECK(job.all<StartWorker>().back().host == "c");
  job.membership.asked(4, 0);
  CHECK(job.all<NotifyMembers>().back().changes == (kWorkersRemoved | kWorkersAdded));
  for (const int64_t id : {0, 1, 2, 3}) job.membership.left(id, 1);
  for (const int64_t id : {0, 1, 2, 3}) job.membership.asked(id, 1);
  CHECK(job.members() == Ids{2, 3, 4});
  const auto removals = job.all<RemoveWorker>();
  REQUIRE(removals.size() == 2);
  CHECK_THAT(removals[0].why, Contains("worker 0 is in no further plan: its slot 0 of host a is no longer the job's"));
  job.membership.exited(0, {"exited with code 0", 0, false});
  job.membership.exited(1, {"exited with code 1", 1, false});
  CHECK(job.membership.deaths().empty());
  CHECK(job.membership.plan().number == 2);
}

TEST_CASE("a removed worker that does not end within --rejoin-timeout is ended, and nobody calls that a failure") {
  auto discovering = rules(2, 1);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.listed({{"a", 2}});
  job.at(1000);
  for (const int64_t id : {0, 1, 2, 3}) job.membership.asked(id, 1);
  CHECK(job.members() == Ids{0, 1});
  job.join();
  job.membership.exited(2, {"exited with code 0", 0, false});
  job.at(30999);
  CHECK(job.all<StopWorker>().empty());
  job.at(31000);
  REQUIRE(job.all<StopWorker>().size() == 1);
  CHECK(job.all<StopWorker>()[0].worker == 3);
  job.membership.exited(3, kKilled);
  CHECK(job.membership.deaths().empty());
  CHECK(job.membership.plan().number == 2);
}

TEST_CASE("members are not interrupted for a list that would leave too few of them") {
  auto discovering = rules(4, 3);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.listed({{"a", 2}});
  CHECK(job.all<NotifyMembers>().empty());
  job.membership.listed({{"a", 2}, {"c", 1}});
  job.membership.reached("c");
  job.membership.asked(4, 0);
  REQUIRE(job.all<NotifyMembers>().size() == 1);
  CHECK(job.all<NotifyMembers>()[0].changes == (kWorkersRemoved | kWorkersAdded));
}

TEST_CASE("a host that was lost is used again once it is reached, in its old position") {
  auto discovering = rules(4, 1);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.lost("a", "has been silent for 5 s");
  job.join();
  job.at(100000);
  CHECK(job.all<StartWorker>().size() == 4);
  job.membership.reached("a");
  CHECK(job.all<StartWorker>().size() == 6);
  for (const int64_t id : {4, 5}) job.membership.asked(id, 0);
  job.membership.asked(2, 2);
  CHECK(job.members() == Ids{2, 3, 4, 5});  // those that hold the state come first
}

TEST_CASE("a new host goes to the end, wherever it is in the list, and hosts that stay keep their order") {
  auto discovering = rules(4, 1);
  discovering.discovers = true;
  discovering.most = 4;
  Job job(discovering);
  job.join();
  job.membership.listed({{"c", 1}, {"b", 2}, {"a", 2}});
  job.membership.reached("c");
  CHECK(job.all<StartWorker>().size() == 4);  // there is no room behind a and b
  CHECK(job.all<NotifyMembers>().empty());
  job.membership.listed({{"c", 1}, {"b", 2}, {"a", 1}});
  for (const int64_t id : {0, 1, 2, 3}) job.membership.left(id, 1);
  for (const int64_t id : {0, 1, 2, 3}) job.membership.asked(id, 1);
  CHECK(job.members() == Ids{0, 2, 3});
  CHECK(job.all<StartWorker>().back().host == "c");
}

TEST_CASE("a change that is undone before anybody reacts is taken back") {
  auto discovering = rules(2, 1);
  discovering.discovers = true;
  Job job(discovering);
  job.join();
  job.membership.listed({{"a", 2}});
  job.membership.listed({{"a", 2}, {"b", 2}});
  const auto notices = job.all<NotifyMembers>();
  REQUIRE(notices.size() == 2);
  CHECK(notices[0].changes == kWorkersRemoved);
  CHECK(notices[1].changes == 0);
  CHECK(job.membership.plan().number == 1);
}

TEST_CASE("a job without enough slots at its start waits for them, and ends if they do not come") {
  auto discovering = rules(3, 1);
  discovering.discovers = true;
  Job job(discovering, {{"a", 2}});
  CHECK(job.members().empty());
  job.at(5000);
  job.membership.listed({{"a", 2}, {"b", 1}});
  job.membership.reached("b");
  CHECK(job.members() == Ids{0, 1, 2});
  Job never(discovering, {{"a", 2}});
  never.at(600000);
  CHECK_THAT(never.end().sentence, Contains("of at least 3 workers"));
  CHECK(never.end().exit_code == 1);
}
