// Kills or stops hvdrun, guard or agent of a running job, and looks for processes that are left by a mark in their
// environment.

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;

namespace {

// Starts two ranks that ignore SIGTERM. Each has an orphaned child that ignores it too, in a session of its own.
const std::vector<std::string> kStubborn = {
    "-np",
    "2",
    "--grace-seconds",
    "1",
    "sh",
    "-c",
    "$0 fork; trap '' TERM HUP; echo ready; while :; do sleep 1000 & wait; done",
    RUEDA_LAUNCHER_RANK};

void wait_until_ready(HvdrunProcess& run) {
  run.read_until("[0]<stdout>:ready");
  run.read_until("[1]<stdout>:ready");
  REQUIRE(run.processes().size() >= 3 + 2 + 2);  // hvdrun, guard, agent; ranks; their children
}

}  // namespace

TEST_CASE("SIGKILL of hvdrun, guard or agent leaves no process") {
  for (const std::string victim : {"hvdrun", "hvdrun-guard", "hvdrun-agent"}) {
    INFO("victim: " << victim);
    HvdrunProcess run(kStubborn);
    wait_until_ready(run);
    REQUIRE(kill(run.process_named(victim), SIGKILL) == 0);
    run.wait_for_all_to_end();
    CHECK(run.wait() == (victim == "hvdrun" ? -SIGKILL : 1));
    if (victim == "hvdrun") continue;
    const std::string lost = "has lost its " + victim.substr(victim.find('-') + 1);
    CHECK_THAT(run.err(), Contains("hvdrun: host localhost " + lost) &&
                              Contains("hvdrun: the first to fail: rank 0 (host localhost, pid ") &&
                              Contains("lost with its host, which " + lost));
  }
}

TEST_CASE("the guard continues a stopped agent, which then notices the end of hvdrun") {
  const bool hvdrun_dies = GENERATE(true, false);
  HvdrunProcess run(kStubborn);
  wait_until_ready(run);
  REQUIRE(kill(run.process_named("hvdrun-agent"), SIGSTOP) == 0);
  REQUIRE(kill(run.process_named("hvdrun"), hvdrun_dies ? SIGKILL : SIGTERM) == 0);
  run.wait_for_all_to_end();
  CHECK(run.wait() == (hvdrun_dies ? -SIGKILL : 128 + SIGTERM));
}

TEST_CASE("a failed job ends children that left their session and ignore SIGTERM") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c",
                     "$0 fork; test $RUEDA_RANK = 1 && exit 6; exec sleep 1000", RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 6);
  CHECK(run.processes().empty());
}

TEST_CASE("a job that succeeds ends children that left their session") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c", "$0 fork; echo done", RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 0);
  CHECK(run.processes().empty());
  CHECK(HvdrunProcess::lines(run.out(), "[1]<stdout>:") == std::vector<std::string>{"done"});
}

TEST_CASE("hvdrun ends hundreds of processes in sessions of their own") {
  HvdrunProcess run(
      {"-np", "2", "--grace-seconds", "0", "sh", "-c",
       "for i in $(seq 40); do setsid sh -c 'sleep 1000 & sleep 1000 & wait' & done; echo started; exit 9"});
  CHECK(run.wait() == 9);
  CHECK(run.processes().empty());
}
