// Which of several networks ranks use, and the errors if none connects them.
#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using rueda::core::launcher::HvdrunProcess;
using rueda::test::NetLab;
using Words = std::vector<std::string>;
using Catch::Matchers::Contains;

namespace {

Words hello(Words flags) {
  flags.insert(flags.end(), {"--log-level", "info", std::string(RUEDA_TEST_BIN) + "/hello_allreduce"});
  return flags;
}

void expect_hello(HvdrunProcess& run) {
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK_THAT(run.out(), Contains("[1]<stdout>:rank 1 of 2: the ranks add up to 1"));
}

/// On both networks of a lab; the kernel then returns "No route to host".
void take_route_from_node3_to_node2(const NetLab& lab) {
  for (int network = 0; network < 2; ++network) {
    static_cast<void>(lab.shell(2, "ip route add unreachable " + NetLab::address(1, network) +
                                       "; ip -6 route add unreachable " + NetLab::address6(1, network)));
  }
}

}  // namespace

TEST_CASE("ranks leave a network without answers for one that works, and log the path") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3, .networks = 2});
  lab.unplug(1, 0);
  HvdrunProcess run(hello({"-H", NetLab::address(0, 1) + "," + NetLab::address(1, 1)}), lab.on(0));
  expect_hello(run);
  CHECK_THAT(run.err(), Contains("rank 1 reaches rank 0 (host " + NetLab::address(0, 1)));
  CHECK_THAT(run.err(), Contains(" at " + NetLab::address(0, 1) + ":"));
  CHECK_THAT(run.err(), Contains("(eth1) (control)"));
  CHECK_THAT(run.err(), Contains("(eth1) (data, lane "));
}

TEST_CASE("ranks use only the network that the flag gives, by name, glob or CIDR") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .networks = 2});
  for (const std::string choice : {"eth1", "e*1", "10.77.2.0/24", "fd77:2::/64"}) {
    INFO(choice);
    HvdrunProcess run(hello({"--network-interfaces", choice, "-H", "node1,node2"}), lab.on(0));
    expect_hello(run);
    const bool v6 = choice.find(':') != std::string::npos;
    CHECK_THAT(run.err(), Contains(v6 ? " at [fd77:2::1]:" : " at 10.77.2.1:"));
    CHECK_THAT(run.err(), !Contains("10.77.1.") && !Contains("fd77:1:"));
  }
}

TEST_CASE("one list fits hosts whose interfaces have different names") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .networks = 2});
  static_cast<void>(lab.shell(1, "ip link set eth1 down; ip link set eth1 name ib1; ip link set ib1 up"));
  HvdrunProcess run(hello({"--network-interfaces", "ib*,eth1", "-H", "node1,node2"}), lab.on(0));
  expect_hello(run);
  CHECK_THAT(run.err(), Contains(" at 10.77.2.1:") && !Contains("10.77.1."));
}

TEST_CASE("an error names an interface that a host lacks and those that it has") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess here(hello({"--network-interfaces", "ib0", "-H", "node1,node2"}), lab.on(0));
  CHECK(here.wait() == 1);
  CHECK_THAT(here.err(), Contains("hvdrun: RUEDA_NETWORK_INTERFACES names \"ib0\"; this machine has "));
  CHECK_THAT(here.err(), Contains("eth0 (10.77.1.1)"));
  static_cast<void>(lab.shell(1, "ip link set eth0 down; ip link set eth0 name card0; ip link set card0 up"));
  HvdrunProcess there(hello({"--network-interfaces", "eth0", "-H", "node1,node2"}), lab.on(0));
  CHECK(there.wait() != 0);
  CHECK_THAT(there.err(), Contains("names \"eth0\"; this machine has "));
}

TEST_CASE("if no address of a peer answers, the error has each one's reason") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3, .networks = 2});
  take_route_from_node3_to_node2(lab);
  Words on = lab.on(0);
  on.insert(on.end(), {"env", "RUEDA_INIT_TIMEOUT_SECONDS=15"});
  HvdrunProcess run(hello({"-H", "node2,node3"}), on);
  CHECK(run.wait() != 0);
  CHECK_THAT(run.err(), Contains("rank 1 cannot reach rank 0 (host node2, pid "));
  for (int network = 0; network < 2; ++network) {
    CHECK_THAT(run.err(), Contains(NetLab::address(1, network) + ":") && Contains("No route to host"));
    CHECK_THAT(run.err(), Contains("[" + NetLab::address6(1, network) + "]:"));
  }
}

TEST_CASE("if two hosts never reach each other, the error names each address and its reason") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3, .networks = 2});
  take_route_from_node3_to_node2(lab);
  HvdrunProcess run(hello({"-H", "node1,node2,node3"}), lab.on(0));
  CHECK(run.wait() != 0);
  INFO(run.err());
  const std::string why = "it has been out of reach for RUEDA_PEER_TIMEOUT_SECONDS (5 s): rank 2 cannot reach rank 1 ";
  CHECK_THAT(run.err(), Contains("first to fail: rank 1 (host node2, pid ") && Contains(why + "(host node2, pid "));
  for (const char* rank : {"0", "1", "2"}) {
    CHECK_THAT(run.err(),
               Contains("[" + std::string(rank) + "]<stderr>:allreduce: allreduce \"hello\" failed: rank 1 "));
  }
  CHECK_THAT(run.err(), Contains("rank 2 cannot reach rank 1") && Contains("; trying again"));
  for (int network = 0; network < 2; ++network) {
    CHECK_THAT(run.err(), Contains(NetLab::address(1, network) + ":") && Contains("No route to host"));
  }
}

TEST_CASE("a malformed network is refused, also next to a valid one") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess run(hello({"--network-interfaces", "eth0,10.77.0.0/99", "-H", "node1,node2"}), lab.on(0));
  CHECK(run.wait() == 1);
  CHECK_THAT(run.err(), Contains("\"10.77.0.0/99\" in \"eth0,10.77.0.0/99\" is not a network"));
}
