// A training on several hosts that loses a part of itself: who is told what, and what is left.
#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using Catch::Matchers::Contains;
using rueda::core::launcher::HvdrunProcess;
using rueda::test::NetLab;

namespace {

/// Three ranks on node1 and one on each other host, which train until something ends them.
class Training {
 public:
  explicit Training(const std::string& list = "node1:3,node2:1", const std::string& flag = "--no-control-tree",
                    int hosts = 2)
      : lab_({.hosts = hosts}),
        run_({flag, "-H", list, std::string(RUEDA_TEST_BIN) + "/train_digits", "--epochs", "10000"}, lab_.on(0)) {
    run_.read_until("epoch 2/");
  }
  NetLab& lab() { return lab_; }
  HvdrunProcess& run() { return run_; }

  void kill_process(int host, const std::string& name) const {
    const pid_t pid = lab_.process_named(host, name);
    INFO("host " << host << ", process " << name);
    REQUIRE(pid > 0);
    REQUIRE(kill(pid, SIGKILL) == 0);
  }

  // What the host sends is lost, and it is not told: no frame fits into the bucket.
  void mute(int host) const {
    static_cast<void>(lab_.shell(host, "tc qdisc replace dev eth0 root tbf rate 8bit burst 10 latency 1ms"));
  }

  // The survivors on node1 name the rank and the cause as hvdrun does, and nothing is left.
  void expect_end(int exit_code, const std::string& rank, const std::string& cause) {
    CHECK(run_.wait() == exit_code);
    INFO(run_.err());
    CHECK_THAT(run_.err(), Contains("hvdrun: the first to fail: " + rank) && Contains(cause));
    CHECK_THAT(run_.err(), Contains("]<stderr>:") && Contains(") died: "));
    wait_until_clean(0);
  }

  void wait_until_clean(int host) const {
    for (auto left = lab_.processes(host); !left.empty(); left = lab_.processes(host)) {
      for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
    }
  }

 private:
  NetLab lab_;
  HvdrunProcess run_;
};

}  // namespace

TEST_CASE("a rank that is killed on another host ends the training on all") {
  NetLab::skip_without();
  Training training;
  training.kill_process(1, "train_digits");
  training.expect_end(137, "rank 3 (host node2, pid ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("a rank that is killed on hvdrun's host ends the training on the others") {
  NetLab::skip_without();
  Training training;
  training.kill_process(0, "train_digits");
  training.expect_end(137, "rank ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("a leader that is killed ends the training of the ranks that it passed agreement on for") {
  NetLab::skip_without();
  Training training("node1:1,node2:3", "--control-tree");
  training.kill_process(1, "train_digits");
  training.expect_end(137, "rank ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("an agent that is killed ends the training") {
  NetLab::skip_without();
  Training training;
  training.kill_process(1, "hvdrun-agent");
  CHECK(training.run().wait() != 0);
  training.wait_until_clean(0);
  training.wait_until_clean(1);
}

TEST_CASE("ssh that is killed ends the training") {
  NetLab::skip_without();
  Training training;
  training.kill_process(0, "ssh");
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has lost its agent");
  training.wait_until_clean(1);
}

TEST_CASE("a cable that is cut ends the training on both of its sides") {
  NetLab::skip_without();
  Training training;
  training.lab().cut(1);
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
}

TEST_CASE("a host that hears but is not heard is given up, and ends its ranks by itself") {
  NetLab::skip_without();
  Training training;
  training.mute(1);
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
}

TEST_CASE("a host that is heard but hears nothing is given up, and ends its ranks by itself") {
  NetLab::skip_without();
  Training training;
  training.mute(0);
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has ");  // who notices first
  training.wait_until_clean(1);
}

TEST_CASE("of a network in two parts the one with hvdrun names the host of the other") {
  NetLab::skip_without();
  Training training("node1:3,node2:1,node3:1", "--no-control-tree", 3);
  training.lab().unplug(2);
  training.expect_end(1, "rank 4 (host node3, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
  training.wait_until_clean(2);
}
