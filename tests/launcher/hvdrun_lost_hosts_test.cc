// Kills one part of a job over several hosts (agent, guard, ssh, hvdrun, host, cable) and checks that no process is
// left and that the report names the cause.
#include <signal.h>

#include <catch2/catch.hpp>
#include <functional>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using namespace rueda::core::launcher;
using rueda::test::NetLab;
using Lines = std::vector<std::string>;
using Catch::Matchers::Contains;

namespace {

// Two ranks on each of two hosts, and for each a child that left its session. All ignore SIGTERM and wait for the
// verdict.
const Lines kStubbornRanks = {"-H",
                              "node1:2,node2:2",
                              "--grace-seconds",
                              "1",
                              "sh",
                              "-c",
                              "trap '' TERM HUP; $0 fork; echo ready; $0 begin death; while :; do sleep 1000; done",
                              RUEDA_LAUNCHER_RANK};

class LostHost {
 public:
  LostHost() : run_(kStubbornRanks, lab_.on(0)) {
    for (const char* rank : {"0", "1", "2", "3"}) run_.read_until("[" + std::string(rank) + "]<stdout>:ready");
  }
  NetLab& lab() { return lab_; }
  HvdrunProcess& run() { return run_; }

  pid_t process(int host, const std::string& name) const {
    const pid_t pid = lab_.process_named(host, name);
    INFO("host " << host << ", process " << name);
    REQUIRE(pid > 0);
    return pid;
  }
  void kill_process(int host, const std::string& name) const { REQUIRE(kill(process(host, name), SIGKILL) == 0); }

  // Only the host's own processes may be left.
  void wait_until_clean(int host) const {
    for (auto left = lab_.processes(host); !left.empty(); left = lab_.processes(host)) {
      for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
    }
  }

  // The ranks of node1 read the same sentence about rank 2 that hvdrun prints last.
  void expect_node2_lost(const std::string& how) {
    CHECK(run_.wait() == 1);
    INFO(run_.err());
    for (const char* rank : {"0", "1"}) {
      const auto lines = HvdrunProcess::lines(run_.out(), "[" + std::string(rank) + "]<stdout>:");
      REQUIRE(lines.size() == 2);
      CHECK_THAT(lines[1],
                 Catch::StartsWith("rank 2 (host node2, pid ") && Contains(") died: lost with its host, which " + how));
    }
    const auto lines = HvdrunProcess::lines(run_.err(), "hvdrun: the first to fail: rank 2 (host node2, pid ");
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Contains(") lost with its host, which " + how));
    wait_until_clean(0);
  }

 private:
  NetLab lab_{{.hosts = 2}};
  HvdrunProcess run_;
};

}  // namespace

TEST_CASE("the death of an agent ends its host's ranks, and the other ranks learn why") {
  NetLab::skip_without();
  LostHost job;
  job.kill_process(1, "hvdrun-agent");
  job.expect_node2_lost("has lost its agent");
  job.wait_until_clean(1);
}

TEST_CASE("the death of a guard ends its host's ranks") {
  NetLab::skip_without();
  LostHost job;
  job.kill_process(1, "hvdrun-guard");
  job.expect_node2_lost("has lost its guard, the process hvdrun-guard");
  job.wait_until_clean(1);
}

TEST_CASE("the death of ssh ends the ranks at its other end, and the other ranks learn why") {
  NetLab::skip_without();
  LostHost job;
  job.kill_process(0, "ssh");
  job.expect_node2_lost("has lost its agent");
  job.wait_until_clean(1);
}

TEST_CASE("the death of hvdrun ends the ranks of all hosts") {
  NetLab::skip_without();
  LostHost job;
  job.kill_process(0, "hvdrun");
  CHECK(job.run().wait() != 0);
  job.wait_until_clean(0);
  job.wait_until_clean(1);
}

TEST_CASE("hvdrun notices by its silence that a host is gone") {
  NetLab::skip_without();
  LostHost job;
  job.lab().cut(1);  // before the host ends, else its kernel would close the connections
  job.lab().kill_host(1);
  job.expect_node2_lost("has been silent for 5 s");
}

TEST_CASE("hvdrun gives up a host that is cut off, and that host ends its own ranks") {
  NetLab::skip_without();
  LostHost job;
  job.lab().cut(1);
  job.expect_node2_lost("has been silent for 5 s");
  job.wait_until_clean(1);
}

TEST_CASE("SIGTERM to an agent or a guard that was started over ssh says that its host is about to go") {
  NetLab::skip_without();
  for (const char* told : {"hvdrun-agent", "hvdrun-guard"}) {
    NetLab lab({.hosts = 2});
    HvdrunProcess run({"-np", "2", "--min-np", "1", "-H", "node1:1,node2:1", "sh", "-c",
                       "exec $0 join notice reset join bye", RUEDA_LAUNCHER_RANK},
                      lab.on(0));
    for (const char* worker : {"0", "1"}) run.read_until("[" + std::string(worker) + "]<stdout>:plan 1 rank");
    const pid_t process = lab.process_named(1, told);
    REQUIRE(process > 0);
    REQUIRE(kill(process, SIGTERM) == 0);
    CHECK(run.wait() == 0);
    INFO(run.out() << run.err());
    // The job does not wait for the last words of a worker that it has removed.
    CHECK_THAT(run.out(), Contains("[0]<stdout>:plan 2 rank 0 of 1"));
    CHECK_THAT(run.err(), Contains("host node2 is about to go") && Contains("worker 1 is in no further plan") &&
                              !Contains("failed") && !Contains("lost its agent"));
    for (auto left = lab.processes(1); !left.empty(); left = lab.processes(1)) {
      for (const auto& one : left) HvdrunProcess::wait_for_end_of(one.pid);
    }
  }
}

TEST_CASE("an elastic job goes on without a host that is cut off, and that host ends its own workers") {
  NetLab::skip_without();
  NetLab lab({.hosts = 2});
  HvdrunProcess run({"-np", "4", "--min-np", "2", "-H", "node1:2,node2:2", "sh", "-c", "exec $0 join over join bye",
                     RUEDA_LAUNCHER_RANK},
                    lab.on(0));
  for (const char* worker : {"0", "1", "2", "3"}) run.read_until("[" + std::string(worker) + "]<stdout>:plan 1 rank");
  lab.cut(1);
  CHECK(run.wait() == 0);
  INFO(run.err());
  for (const char* worker : {"0", "1"}) {
    const auto lines = HvdrunProcess::lines(run.out(), "[" + std::string(worker) + "]<stdout>:");
    REQUIRE(lines.size() == 3);
    CHECK_THAT(lines[1],
               Contains(", host node2, pid ") && Contains(") died: lost with its host, which has been silent for 5 s"));
    CHECK(lines[2] == "plan 2 rank " + std::string(worker) + " of 2");
  }
  for (auto left = lab.processes(1); !left.empty(); left = lab.processes(1)) {
    for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
  }
}
