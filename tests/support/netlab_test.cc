// What the lab promises: hosts that reach each other by ssh, that can be killed one by one, and that die with their
// test.
#include "tests/support/netlab.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/base/unique_fd.h"

using namespace rueda::test;

TEST_CASE("hosts of a lab reach each other by ssh, each with its own name, processes and addresses") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3, .networks = 2});
  for (int host = 0; host < 3; ++host) CHECK(lab.processes(host).empty());
  for (int from = 0; from < 3; ++from) {
    CHECK(lab.run(from, {"hostname"}) == NetLab::name(from) + "\n");
    for (int to = 0; to < 3; ++to) {
      INFO("from " << from << " to " << to);
      for (const auto& name : {NetLab::name(to), NetLab::address(to, 1), NetLab::address6(to)})
        CHECK(lab.run(from, {"ssh", "-o", "BatchMode=yes", name, "hostname"}) == NetLab::name(to) + "\n");
    }
  }
}

TEST_CASE("a lab with a rate shapes what leaves its hosts") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .rate = "50mbit"});
  for (int host = 0; host < 2; ++host) {
    INFO("host " << host);
    CHECK(lab.shell(host, "tc qdisc show dev eth0").find("tbf") != std::string::npos);
  }
}

TEST_CASE("nothing leaves a mute host, and nothing reaches a deaf one") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  const auto packets = [&lab](int host, int column) {  // of /proc/net/dev: 3 received, 11 sent
    return lab.shell(host, "awk '/eth0:/ {print $" + std::to_string(column) + "}' /proc/net/dev");
  };
  lab.mute(1);
  lab.deafen(2);
  const auto from_talker = packets(0, 11), from_mute = packets(1, 11), to_deaf = packets(2, 3);
  // A first frame to an address is the question for its card.
  static_cast<void>(lab.run(0, {"bash", "-c", "echo >/dev/udp/" + NetLab::address(2) + "/9"}));
  static_cast<void>(lab.run(1, {"bash", "-c", "echo >/dev/udp/" + NetLab::address(0) + "/9"}));
  CHECK(packets(0, 11) != from_talker);
  CHECK(packets(1, 11) == from_mute);
  CHECK(packets(2, 3) == to_deaf);
}

TEST_CASE("a killed host has no processes, and the others live on") {
  NetLab::skip_without();
  NetLab lab({.hosts = 2});
  lab.kill_host(1);
  CHECK(lab.processes(1).empty());
  CHECK(lab.run(0, {"hostname"}) == "node1\n");
}

TEST_CASE("the hosts of a test that is killed die with it") {
  NetLab::skip_without();
  int told[2];
  REQUIRE(pipe(told) == 0);
  const pid_t test = fork();
  REQUIRE(test >= 0);
  if (test == 0) {
    const NetLab lab({.hosts = 2});
    // A process of each host, in a session of its own and with no wish to end.
    for (int host = 0; host < 2; ++host)
      static_cast<void>(
          lab.shell(host, "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' >&- 2>&- <&- &"));
    for (int host = 0; host < 2; ++host) {
      const pid_t pid = lab.processes(host).at(0).pid;
      if (write(told[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    }
    for (;;) pause();
  }
  close(told[1]);
  rueda::core::UniqueFd ends[2];
  for (auto& end : ends) {
    pid_t pid = -1;
    REQUIRE(read(told[0], &pid, sizeof pid) == sizeof pid);
    end = rueda::core::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    REQUIRE(end.valid());
  }
  close(told[0]);
  REQUIRE(kill(test, SIGKILL) == 0);
  REQUIRE(waitpid(test, nullptr, 0) == test);
  for (const auto& end : ends) {
    pollfd ended{end.get(), POLLIN, 0};
    CHECK(poll(&ended, 1, 120'000) == 1);
  }
}
