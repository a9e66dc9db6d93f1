// Elastic jobs whose hosts are about to go: their agents or guards get SIGTERM, or the user says so. The names
// localhost and 127.0.0.1 count as two hosts, each with an agent of its own.

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/launcher/host_list.h"
#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::vector<std::string> with_two_hosts(std::vector<std::string> flags, const std::string& worker) {
  std::vector<std::string> all{"-np", "2", "--min-np", "1", "-H", "localhost:1,127.0.0.1:1"};
  all.insert(all.end(), flags.begin(), flags.end());
  for (const std::string& word : {std::string("sh"), std::string("-c"), worker, std::string(RUEDA_LAUNCHER_RANK)})
    all.push_back(word);
  return all;
}

void read_until_both_are_in_plan_1(HvdrunProcess& run) {
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
}

void require_no_failure(const HvdrunProcess& run) {
  INFO(run.err());
  CHECK(run.err().find("failed") == std::string::npos);
  run.wait_for_all_to_end();
}

}  // namespace

TEST_CASE("SIGTERM to an agent lets its workers leave with the next plan, and then the agent ends") {
  HvdrunProcess run(with_two_hosts({"--removal-timeout", "60"}, "exec $0 join notice reset join pause"));
  read_until_both_are_in_plan_1(run);
  const pid_t agent = run.agent_of_worker(1);
  REQUIRE(kill(agent, SIGTERM) == 0);
  run.read_until("[0]<stdout>:plan 2 rank 0 of 1");
  HvdrunProcess::wait_for_end_of(agent);
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  for (const char* worker : {"[0]", "[1]"})
    CHECK_THAT(run.out(),
               Contains(std::string(worker) + "<stdout>:changes 1 to plan 2, newcomers 0, ended after 60 s"));
  CHECK_THAT(run.out(), Contains("[1]<stdout>:worker 1 is in no further plan: its slot 0 of host 127.0.0.1"));
  CHECK_THAT(run.err(), Contains("host 127.0.0.1 is about to go") && !Contains("lost its agent"));
  require_no_failure(run);
}

TEST_CASE("a worker that does not react to its host's notice is ended, by SIGKILL if need be, and has not failed") {
  HvdrunProcess run(with_two_hosts({"--removal-timeout", "0.1", "--grace-seconds", "1"},
                                   "test $RUEDA_WORKER_ID = 1 && { trap '' TERM; exec $0 join pause; }; "
                                   "exec $0 join over join pause"));
  read_until_both_are_in_plan_1(run);
  const pid_t agent = run.agent_of_worker(1);
  REQUIRE(kill(agent, SIGTERM) == 0);
  run.read_until("[0]<stdout>:plan 2 rank 0 of 1");
  CHECK_THAT(run.out(), Contains("left with its host, which is about to go: it still ran 0.1 s after the notice"));
  HvdrunProcess::wait_for_end_of(agent);
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  require_no_failure(run);
}

TEST_CASE("a worker that gets SIGTERM together with its agent has not failed") {
  HvdrunProcess run(with_two_hosts({}, "test $RUEDA_WORKER_ID = 1 && exec $0 join pause; exec $0 join over join bye"));
  read_until_both_are_in_plan_1(run);
  const pid_t worker = run.process_of_worker(1);
  REQUIRE(kill(run.agent_of_worker(1), SIGTERM) == 0);
  REQUIRE(kill(worker, SIGTERM) == 0);
  CHECK(run.wait() == 0);
  CHECK_THAT(run.out(), Contains("[0]<stdout>:plan 2 rank 0 of 1"));
  require_no_failure(run);
}

TEST_CASE(
    "a discovered host that was about to go is used again once it is listed anew, also after SIGTERM to its guard") {
  const HostList list("localhost:1\n127.0.0.1:1\n");
  HvdrunProcess run(
      {"-np", "2", "--min-np", "1", "--host-discovery-script", list.script(), "sh", "-c",
       "case $RUEDA_WORKER_ID in 0) exec $0 join notice reset join notice reset join notice reset join bye;; "
       "1) exec $0 join notice reset join;; 2) exec $0 join over join bye;; *) exec $0 join bye;; esac",
       RUEDA_LAUNCHER_RANK});
  read_until_both_are_in_plan_1(run);
  const pid_t guard = HvdrunProcess::parent_of(run.agent_of_worker(1));
  REQUIRE(kill(guard, SIGTERM) == 0);
  run.read_until("[0]<stdout>:plan 2 rank 0 of 1");
  HvdrunProcess::wait_for_end_of(guard);
  list.replace("localhost:2\n");
  run.read_until("[2]<stdout>:plan 3 rank 1 of 2");
  list.replace("localhost:2\n127.0.0.1:1\n");
  run.read_until("[3]<stdout>:plan 4 rank 2 of 3");
  CHECK(run.wait() == 0);
  require_no_failure(run);
}

TEST_CASE("hvdrun --signal-removal tells a running job of a host that is about to go") {
  HvdrunProcess run(with_two_hosts({}, "exec $0 join notice reset join pause"));
  read_until_both_are_in_plan_1(run);
  const std::string pid = std::to_string(run.pid());
  HvdrunProcess unknown({"--signal-removal", pid, "nowhere"});
  CHECK(unknown.wait() == 1);
  CHECK(unknown.last_error() == "hvdrun: the job has no host \"nowhere\"; its hosts are localhost, 127.0.0.1");
  HvdrunProcess known({"--signal-removal", pid, "127.0.0.1"});
  CHECK(known.wait() == 0);
  CHECK(known.out() ==
        "host 127.0.0.1 is about to go: its workers (1) leave with the next plan, and those that still run 25 s "
        "after the first notice are ended\n");
  run.read_until("[0]<stdout>:plan 2 rank 0 of 1");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  require_no_failure(run);
  HvdrunProcess gone({"--signal-removal", pid, "127.0.0.1"});
  CHECK(gone.wait() == 1);
  CHECK_THAT(gone.last_error(), StartsWith("hvdrun: no hvdrun with pid " + pid + " answers on this machine"));
  HvdrunProcess wrong({"--signal-removal", "x", "127.0.0.1"});
  CHECK(wrong.wait() == 2);
  CHECK_THAT(wrong.last_error(), Contains("\"x\" is not the pid of a hvdrun; give PID HOST"));
}
