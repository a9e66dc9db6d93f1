// A training on several hosts that loses a part of itself: who is told what, and what is left.
#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using Catch::Matchers::Contains;
using rueda::core::launcher::HvdrunProcess;
using rueda::test::NetLab;

namespace {

/// Three ranks on node1 and one on node2, which train until something ends them.
class Training {
 public:
  Training()
      : run_({"-H", "node1:3,node2:1", std::string(RUEDA_TEST_BIN) + "/train_digits", "--epochs", "10000"},
             lab_.on(0)) {
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
  NetLab lab_{{.hosts = 2}};
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
