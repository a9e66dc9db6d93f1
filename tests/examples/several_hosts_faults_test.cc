// A training job on several hosts that loses one part: what the survivors report, and that no process is left.
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

  // Checks that hvdrun and a survivor name the rank and the cause, and that no process is left on node1.
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

TEST_CASE("the death of a rank on another host ends the training on all hosts") {
  NetLab::skip_without();
  Training training;
  training.kill_process(1, "train_digits");
  training.expect_end(137, "rank 3 (host node2, pid ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("the death of a rank on hvdrun's host ends the training on the others") {
  NetLab::skip_without();
  Training training;
  training.kill_process(0, "train_digits");
  training.expect_end(137, "rank ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("the death of a host's leader ends the training of the ranks behind it") {
  NetLab::skip_without();
  Training training("node1:1,node2:3", "--control-tree");
  training.kill_process(1, "train_digits");
  training.expect_end(137, "rank ", "killed by signal 9 (Killed)");
  training.wait_until_clean(1);
}

TEST_CASE("the death of an agent ends the training") {
  NetLab::skip_without();
  Training training;
  training.kill_process(1, "hvdrun-agent");
  training.expect_end(1, "rank 3 (host node2, pid ", "");  // its agent's end or its own, whichever shows first
  training.wait_until_clean(1);
}

TEST_CASE("the death of ssh ends the training") {
  NetLab::skip_without();
  Training training;
  training.kill_process(0, "ssh");
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has lost its agent");
  training.wait_until_clean(1);
}

TEST_CASE("cutting a cable ends the training on both sides") {
  NetLab::skip_without();
  Training training;
  training.lab().cut(1);
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
}

TEST_CASE("hvdrun gives up a host that receives but cannot send, and that host ends its own ranks") {
  NetLab::skip_without();
  Training training;
  training.lab().mute(1);
  training.expect_end(1, "rank 3 (host node2, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
}

TEST_CASE("hvdrun gives up a host that sends but receives nothing, and that host ends its own ranks") {
  NetLab::skip_without();
  Training training;
  training.lab().mute(0);
  training.expect_end(1, "rank 3 (host node2, pid ",
                      "lost with its host, which has ");  // the reason depends on which side notices first
  training.wait_until_clean(1);
}

TEST_CASE("if the network splits, the part with hvdrun names the host in the other") {
  NetLab::skip_without();
  Training training("node1:3,node2:1,node3:1", "--no-control-tree", 3);
  training.lab().unplug(2);
  training.expect_end(1, "rank 4 (host node3, pid ", "lost with its host, which has been silent for 5 s");
  training.wait_until_clean(1);
  training.wait_until_clean(2);
}
