// Hosts that are lost while hvdrun still waits for others, and agents that break the protocol.
#include <signal.h>

#include <catch2/catch.hpp>

#include "launcher/messages.h"
#include "runtime/base/build_id.h"
#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using rueda::test::NetLab;

namespace {

/// A FIFO at which something on a host waits until the test opens it, once for each waiter.
class Gate {
 public:
  Gate(const NetLab& lab, int host) : lab_(lab), host_(host) { static_cast<void>(lab.shell(host, "mkfifo /run/gate")); }
  void hold_logins() const { lab_.write_file(host_, "/etc/ssh/sshrc", "read go < /run/gate\n"); }
  void open() const { static_cast<void>(lab_.shell(host_, "echo go > /run/gate")); }

 private:
  const NetLab& lab_;
  int host_;
};

std::string wire(const Message& message) {
  const auto bytes = encode(message);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Replaces the host's hvdrun by a line of shell. The line finds an agent's first messages in /run/hello and kDone in
/// /run/done.
void replace_agent(const NetLab& lab, int host, const std::string& line) {
  Introduction who;
  who.build = rueda::core::build_id();
  who.version = "0";
  who.host = NetLab::name(host);
  who.client = NetLab::address(0);
  lab.write_file(host, "/run/hello", std::string(kAgentMagic) + wire({MessageType::kHere, -1, 0, encode(who)}));
  lab.write_file(host, "/run/done", wire({MessageType::kDone, -1, 0, {}}));
  lab.write_file(host, "/run/agent", "#!/bin/sh\n" + line + "\n");
  static_cast<void>(lab.shell(host, "chmod +x /run/agent; mount --bind /run/agent " RUEDA_HVDRUN));
}

}  // namespace

TEST_CASE("the death of a guard while hvdrun waits for another host counts as a failure of its host") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const Gate gate(lab, 1);
  gate.hold_logins();
  HvdrunProcess run({"--verbose", "--start-timeout", "0", "-H", "node1:2,node2:1", "echo", "ran"}, lab.on(0));
  run.read_errors_until("host node1 (node1) is this one");
  run.send_by_name("hvdrun-guard", SIGKILL);
  gate.open();
  CHECK(run.wait() == 1);
  CHECK(run.out().empty());
  CHECK(run.last_error() == "hvdrun: host node1 has lost its guard, the process hvdrun-guard");
  run.wait_for_all_to_end();
}

TEST_CASE("an agent that leaves while hvdrun waits for another host counts as a failure of its host") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  const Gate gate(lab, 2);
  gate.hold_logins();
  replace_agent(lab, 1, "cat /run/hello /run/done");
  HvdrunProcess run({"--verbose", "--start-timeout", "0", "-H", "node2:1,node3:1", "echo", "ran"}, lab.on(0));
  run.read_errors_until("host node2 (node2) is reached");
  HvdrunProcess::wait_for_end_of(lab.process_named(1, "agent"));
  gate.open();
  CHECK(run.wait() == 1);
  CHECK(run.out().empty());
  CHECK(run.last_error() == "hvdrun: host node2 has lost its agent, which left before hvdrun ended it");
}

TEST_CASE("a rank counts as failed if no agent reports its exit") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const Gate gate(lab, 1);
  replace_agent(lab, 1, "cat /run/hello; read go < /run/gate; cat /run/done");
  HvdrunProcess run({"--verbose", "-H", "node2:1", "echo", "ran"}, lab.on(0));
  run.read_errors_until(", store at ");
  gate.open();
  CHECK(run.wait() == 1);
  CHECK(run.last_error() ==
        "hvdrun: the first to fail: rank 0 (host node2) has no known exit: its agent left without reporting one");
  HvdrunProcess check({"--check-build", "-H", "node2:1"}, lab.on(0));
  gate.open();
  CHECK(check.wait() == 1);
  CHECK(check.err() == "hvdrun: host node2 could not be checked: its agent left without an answer\n");
}

TEST_CASE("a host that is cut off while hvdrun waits for another ends its agent") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  const Gate gate(lab, 1);
  gate.hold_logins();
  HvdrunProcess run({"--verbose", "--start-timeout", "0", "--peer-timeout-seconds", "2", "-H",
                     "node1:1,node2:1,node3:1", "echo", "ran"},
                    lab.on(0));
  run.read_errors_until("host node3 (node3) is reached");
  lab.cut(2);
  for (auto left = lab.processes(2); !left.empty(); left = lab.processes(2)) {
    for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
  }
  gate.open();
  CHECK(run.wait() == 1);
  CHECK_THAT(run.last_error(), Contains("node3") && Contains("has been silent for 2 s"));
}
