// What is left of a job over several hosts, and what is said, when a part of it goes: agents, ssh, hosts, cables,
// hvdrun.
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

// Two ranks on each of two hosts, and a child of each that left its session; all ignore SIGTERM and wait for the
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

  // Nothing may be left on the host but what belongs to it.
  void wait_until_clean(int host) const {
    for (auto left = lab_.processes(host); !left.empty(); left = lab_.processes(host)) {
      for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
    }
  }

  // The ranks of node1 were told of rank 2's death, and hvdrun's last line says the same.
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

TEST_CASE("the death of an agent ends its host's ranks, and the others are told") {
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

TEST_CASE("the death of ssh ends the ranks at its other end, and the others are told") {
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

TEST_CASE("a host that is gone without a word is noticed by its silence") {
  NetLab::skip_without();
  LostHost job;
  job.lab().cut(1);  // else the kernel would close its connections
  job.lab().kill_host(1);
  job.expect_node2_lost("has been silent for 5 s");
}

TEST_CASE("a host that is cut off is given up, and ends its ranks by itself") {
  NetLab::skip_without();
  LostHost job;
  job.lab().cut(1);
  job.expect_node2_lost("has been silent for 5 s");
  job.wait_until_clean(1);
}
