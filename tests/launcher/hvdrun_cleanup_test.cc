#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;

namespace {

// Two ranks that ignore SIGTERM, each with a child of the same kind in a session of its own, whose parent has gone.
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

TEST_CASE("the end of hvdrun, guard or agent by SIGKILL leaves no process") {
  for (const std::string victim : {"hvdrun", "hvdrun-guard", "hvdrun-agent"}) {
    INFO("victim: " << victim);
    HvdrunProcess run(kStubborn);
    wait_until_ready(run);
    REQUIRE(kill(run.process_named(victim), SIGKILL) == 0);
    run.wait_for_all_to_end();
    const int code = run.wait();
    CHECK(code == (victim == "hvdrun" ? -SIGKILL : code));
    CHECK(code != 0);
    if (victim == "hvdrun") continue;
    const std::string lost = "has lost its " + victim.substr(victim.find('-') + 1);
    CHECK(code == 1);
    CHECK_THAT(run.err(), Contains("hvdrun: host localhost " + lost) &&
                              Contains("hvdrun: the first to fail: rank 0 (host localhost, pid ") &&
                              Contains("lost with its host, which " + lost));
  }
}

TEST_CASE("an agent that was stopped goes on, and hears of hvdrun's end") {
  const bool hvdrun_dies = GENERATE(true, false);
  HvdrunProcess run(kStubborn);
  wait_until_ready(run);
  REQUIRE(kill(run.process_named("hvdrun-agent"), SIGSTOP) == 0);
  REQUIRE(kill(run.process_named("hvdrun"), hvdrun_dies ? SIGKILL : SIGTERM) == 0);
  run.wait_for_all_to_end();
  CHECK(run.wait() == (hvdrun_dies ? -SIGKILL : 128 + SIGTERM));
}

TEST_CASE("children that left their session and ignore SIGTERM end with a job that failed") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c",
                     "$0 fork; test $RUEDA_RANK = 1 && exit 6; exec sleep 1000", RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 6);
  CHECK(run.processes().empty());
}

TEST_CASE("children that left their session end with a job that succeeded") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c", "$0 fork; echo done", RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 0);
  CHECK(run.processes().empty());
  CHECK(HvdrunProcess::lines(run.out(), "[1]<stdout>:") == std::vector<std::string>{"done"});
}

TEST_CASE("hundreds of processes in each other's arms are all ended") {
  HvdrunProcess run(
      {"-np", "2", "--grace-seconds", "0", "sh", "-c",
       "for i in $(seq 40); do setsid sh -c 'sleep 1000 & sleep 1000 & wait' & done; echo started; exit 9"});
  CHECK(run.wait() == 9);
  CHECK(run.processes().empty());
}
