// hvdrun over several hosts: namespaces with sshd (tests/support/netlab.h).
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/netlab.h"

using namespace rueda::core::launcher;
using rueda::test::NetLab;
using Lines = std::vector<std::string>;
using Catch::Matchers::Contains;

namespace {

// A rank that prints its host by the host's own name and by the variable that it got.
constexpr const char* kWhere = "echo $(hostname) $RUEDA_HOSTNAME $RUEDA_LOCAL_RANK/$RUEDA_LOCAL_SIZE";

Lines said_by(const HvdrunProcess& run, int rank) {
  return HvdrunProcess::lines(run.out(), "[" + std::to_string(rank) + "]<stdout>:");
}

}  // namespace

TEST_CASE("ranks fill the slots of the hosts in their order") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess run({"-H", "node1:3,node2:1", "sh", "-c", kWhere}, lab.on(0));
  INFO(run.err());
  CHECK(run.wait() == 0);
  CHECK(said_by(run, 0) == Lines{"node1 node1 0/3"});
  CHECK(said_by(run, 2) == Lines{"node1 node1 2/3"});
  CHECK(said_by(run, 3) == Lines{"node2 node2 0/1"});
  CHECK(run.err().empty());
  run.wait_for_all_to_end();
  auto named = lab.on(0);
  named.insert(named.end(), {"env", "HOSTNAME=mine"});
  HvdrunProcess told({"-H", "node1:1,node2:1", "sh", "-c", "echo $HOSTNAME"}, named);
  CHECK(told.wait() == 0);
  CHECK(said_by(told, 0) == Lines{"mine"});
  CHECK(said_by(told, 1) == Lines{"node2"});
}

TEST_CASE("hosts are reached by name, address, IPv6 address and user, and hvdrun's own host may have no rank") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  lab.write_file(0, "/run/hosts.txt", "root@node2 slots=1 # with a user\n" + NetLab::address(2) + " slots=2\n");
  HvdrunProcess by_file({"-np", "2", "--hostfile", "/run/hosts.txt", "sh", "-c", kWhere}, lab.on(0));
  CHECK(by_file.wait() == 0);
  CHECK(said_by(by_file, 0) == Lines{"node2 node2 0/1"});
  CHECK(said_by(by_file, 1) == Lines{"node3 " + NetLab::address(2) + " 0/1"});
  HvdrunProcess by_v6({"-H", "[" + NetLab::address6(0) + "]:1,root@[" + NetLab::address6(2) + "]:2", "sh", "-c",
                       std::string(kWhere) + " $RUEDA_STORE_ADDR"},
                      lab.on(0));
  CHECK(by_v6.wait() == 0);
  CHECK_THAT(said_by(by_v6, 1).at(0), Catch::StartsWith("node3 " + NetLab::address6(2) + " 0/2 127.0.0.1:"));
  CHECK_THAT(said_by(by_v6, 0).at(0), Contains(" 127.0.0.1:"));
}

TEST_CASE("a rank on another host gets arguments, environment and stdin unchanged") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  auto on = lab.on(0);
  on.insert(on.end(), {"env", "ODD=it's \"$HOME\" `x`\n;"});
  HvdrunProcess run({"-H", "node2:1", "sh", "-c", "printf '%s|' \"$@\" \"$ODD\"; cat", "sh", "two words", "", "$x'\""},
                    on);
  run.write_input("from outside\n");
  run.close_input();
  CHECK(run.wait() == 0);
  CHECK(run.out() == "[0]<stdout>:two words||$x'\"|it's \"$HOME\" `x`\n[0]<stdout>:;|from outside\n");
}

TEST_CASE("output of a login shell before the agent starts is skipped") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  lab.write_file(1, "/etc/ssh/sshrc", "echo Welcome; echo to node2 >&2\n");
  HvdrunProcess run({"-H", "node2:1", "sh", "-c", kWhere}, lab.on(0));
  CHECK(run.wait() == 0);
  CHECK(run.out() == "[0]<stdout>:node2 node2 0/1\n");
  CHECK(run.err().empty());
}

TEST_CASE("ssh's command lines show nothing of the job") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  auto on = lab.on(0);
  on.insert(on.end(), {"env", "PASSWORD=swordfish"});
  HvdrunProcess run({"-H", "node2:1", "sh", "-c", "echo up; cat", "mellon"}, on);
  run.read_until("[0]<stdout>:up");
  const std::string all = lab.shell(0, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'");
  CHECK_THAT(all, Contains("BatchMode=yes"));
  const std::string there = lab.shell(1, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done");
  CHECK_THAT(there, Contains("hvdrun --agent"));
  for (const char* secret : {"swordfish", "RUEDA_"}) {
    CHECK_THAT(all, !Contains(secret));
    CHECK_THAT(there, !Contains(secret));
  }
  run.close_input();
  CHECK(run.wait() == 0);
}

TEST_CASE("--check-build reports what works on each host and which hosts cannot be reached") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess run({"--check-build", "-H", "node1:1,nowhere:1,node2:3"}, lab.on(0));
  CHECK(run.wait() == 1);
  INFO(run.out() << run.err());
  CHECK_THAT(run.err(), Contains("hvdrun: host nowhere cannot be reached by ssh"));
  size_t at = 0;
  for (const char* host : {"node1", "node2"}) {
    at = run.out().find(std::string("Host ") + host + "\n\nRueda ", at);
    REQUIRE(at != std::string::npos);
    at = run.out().find("[X] tcp ", at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(run.out().find("Host nowhere") == std::string::npos);
  HvdrunProcess one({"--check-build", "-H", "node2:1"}, lab.on(0));
  CHECK(one.wait() == 0);
  CHECK_THAT(one.out(), Catch::StartsWith("Host node2\n"));
  CHECK(one.err().empty());
}

TEST_CASE("hvdrun names every host that it cannot use with the reason, and starts no rank") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  lab.write_file(2, "/etc/ssh/sshrc", "exit 0\n");
  lab.write_file(2, "/etc/ssh/authorized_keys", "");
  HvdrunProcess run({"-H", "node1:1,nowhere:1,node2:1,node3:1", "sh", "-c", "echo ran; exec sleep 1000"}, lab.on(0));
  CHECK(run.wait() == 1);
  CHECK(run.out().empty());
  const auto lines = HvdrunProcess::lines(run.err(), "hvdrun: ");
  REQUIRE(lines.size() == 2);
  CHECK(std::count(lines.begin(), lines.end(),
                   "host node3 cannot be reached by ssh: root@node3: Permission denied (publickey).") == 1);
  CHECK_THAT(lines[0] + lines[1],
             Contains("host nowhere cannot be reached by ssh: Could not resolve hostname nowhere"));
  for (int host = 0; host < 2; ++host) CHECK(lab.process_named(host, "sleep") == -1);
}

TEST_CASE("hvdrun quotes a login shell that prints on stdout why it exits") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  static_cast<void>(
      lab.shell(1,
                "printf '#!/bin/sh\\necho Welcome\\necho This account is closed.\\nexit 1\\n' > /run/shell; "
                "chmod +x /run/shell; sed 's|^nobody:.*|nobody:x:65534:65534::/:/run/shell|' /etc/passwd "
                "> /run/passwd; mount --bind /run/passwd /etc/passwd"));
  HvdrunProcess run({"-H", "nobody@node2:1", "true"}, lab.on(0));
  CHECK(run.wait() == 1);
  CHECK(run.last_error() ==
        "hvdrun: host node2 has no agent: ssh exited with code 1 before it answered: This account is closed.");
}

TEST_CASE("hvdrun does not trust a host with a changed key") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  static_cast<void>(lab.shell(0, "sed -i 's/^node2,.*/" + std::string("node2 ssh-ed25519 ") +
                                     "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/' "
                                     "/etc/ssh/ssh_known_hosts"));
  HvdrunProcess run({"-H", "node2:1", "true"}, lab.on(0));
  CHECK(run.wait() == 1);
  CHECK(run.last_error() ==
        "hvdrun: host node2 cannot be reached by ssh: Host key verification failed. (log in there once "
        "by hand so that ssh learns the host's key, or add the key to known_hosts)");
}

TEST_CASE("ssh uses port and key file of the flags") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  static_cast<void>(lab.shell(0, "mv /etc/ssh/login_key /run/key"));
  HvdrunProcess no_key({"-H", "node2:1", "true"}, lab.on(0));
  CHECK(no_key.wait() == 1);
  HvdrunProcess with_key({"-i", "/run/key", "-H", "node2:1", "true"}, lab.on(0));
  CHECK(with_key.wait() == 0);
  HvdrunProcess no_port({"-i", "/run/key", "-p", "2222", "-H", "node2:1", "true"}, lab.on(0));
  CHECK(no_port.wait() == 1);
  CHECK_THAT(no_port.last_error(), Contains("connect to host node2 port 2222: Connection refused"));
}

TEST_CASE("hvdrun names a host without hvdrun and a host with another build") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  // On node2 the folder of hvdrun is empty; on node3 it holds another program under that name.
  const std::string folder = std::string(RUEDA_HVDRUN).substr(0, std::string(RUEDA_HVDRUN).rfind('/'));
  static_cast<void>(lab.shell(1, "mount -t tmpfs none " + folder));
  lab.write_file(2, "/run/other",
                 "#!/bin/sh\nprintf '\\nRUEDA AGENT 1\\n\\045\\0\\0\\0\\110\\377\\377\\377\\377\\0\\0\\0\\0\\0\\0\\0\\0"
                 "\\005other\\0050.9.0\\005node3\\001\\0\\0\\0\\0\\0'; exec cat > /dev/null\n");
  static_cast<void>(lab.shell(2, "chmod +x /run/other; mount --bind /run/other " + std::string(RUEDA_HVDRUN)));
  HvdrunProcess run({"-H", "node2:1,node3:1", "true"}, lab.on(0));
  CHECK(run.wait() == 1);
  CHECK_THAT(run.err(),
             Contains("hvdrun: host node2 has no hvdrun that can start, neither " + std::string(RUEDA_HVDRUN)));
  CHECK_THAT(run.err(), Contains("hvdrun: host node3 has hvdrun 0.9.0 of build other, but this one is build"));
}

TEST_CASE("hvdrun names a host that does not answer in time, and a Ctrl-C before the ranks run") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  lab.write_file(1, "/etc/ssh/sshrc", "exec sleep 1000\n");
  HvdrunProcess run({"--start-timeout", "2", "-H", "node1:1,node2:1", "echo", "ran"}, lab.on(0));
  CHECK(run.wait() == 1);
  CHECK(run.out().empty());
  CHECK(run.last_error() == "hvdrun: host node2 did not answer within 2 s");
  HvdrunProcess broken_off({"--verbose", "-H", "node1:1,node2:1", "echo", "ran"}, lab.on(0));
  broken_off.read_errors_until("host node1 (node1) is this one");
  broken_off.send_by_name("hvdrun", SIGINT);
  CHECK(broken_off.wait() == 130);
  CHECK(broken_off.last_error() == "hvdrun: ended by signal 2 (Interrupt) before the ranks started");
}

TEST_CASE("SIGHUP before the ranks run ends hvdrun, and SIGWINCH before does not hide the reason") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  lab.write_file(1, "/etc/ssh/sshrc", "exec sleep 1000\n");
  HvdrunProcess hung_up({"--verbose", "-H", "node1:1,node2:1", "echo", "ran"}, lab.on(0));
  hung_up.read_errors_until("host node1 (node1) is this one");
  hung_up.send_by_name("hvdrun", SIGHUP);
  CHECK(hung_up.wait() == 129);
  CHECK(hung_up.last_error() == "hvdrun: ended by signal 1 (Hangup) before the ranks started");
  HvdrunProcess resized({"--verbose", "-H", "node1:1,10.77.1.77:1", "echo", "ran"}, lab.on(0));
  resized.read_errors_until("host node1 (node1) is this one");
  resized.send_by_name("hvdrun", SIGWINCH);
  CHECK(resized.wait() == 1);
  CHECK_THAT(resized.last_error(), Contains("host 10.77.1.77 cannot be reached by ssh: connect to host 10.77.1.77"));
}

TEST_CASE("hvdrun warns of two names for one machine, and names a host without the working folder") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess twins({"-H", "node1:1,node2:1,localhost:2", "true"}, lab.on(0));
  CHECK(twins.wait() == 0);
  CHECK_THAT(twins.err(),
             Contains("hvdrun: hosts node1 and localhost are the same machine (address 10.77.1.1): give all "
                      "its slots to one name (node1:3)") &&
                 !Contains("node2"));
  HvdrunProcess listed({"-np", "3", "--host-discovery-script", "echo node1; echo node2; echo localhost", "true"},
                       lab.on(0));
  CHECK(listed.wait() == 0);
  CHECK(HvdrunProcess::lines(listed.err(), "hvdrun: hosts ").size() == 1);
  CHECK_THAT(listed.err(), Contains("node1") && Contains("localhost") && Contains(" are the same machine (address"));
  auto elsewhere = lab.on(0);
  elsewhere.insert(elsewhere.end(), {"sh", "-c", "mkdir /run/only && cd /run/only && exec \"$@\"", "sh"});
  HvdrunProcess folder({"-H", "node1:1,node2:1", "true"}, elsewhere);
  CHECK(folder.wait() == 127);
  CHECK_THAT(folder.err(),
             Contains("cannot enter its working folder /run/only, which hvdrun has on its own host: No such file"));
}

TEST_CASE("--verbose prints for each host what it has and how it is reached") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .networks = 2});
  HvdrunProcess run({"--verbose", "-np", "3", "-H", "node1:2,node2:2", "true"}, lab.on(0));
  CHECK(run.wait() == 0);
  CHECK_THAT(run.err(), Contains("hvdrun: host node1 (node1) is this one: hvdrun "));
  CHECK_THAT(run.err(), Contains("hvdrun: host node2 (node2) is reached: hvdrun "));
  CHECK_THAT(run.err(), Contains("1 of 2 slots, "));
  CHECK_THAT(run.err(), Contains("addresses 10.77.1.2 10.77.2.2 fd77:1::2 fd77:2::2"));
  CHECK_THAT(run.err(), Contains("hvdrun: host node2 reaches the store at 10.77.1.1:"));
  CHECK_THAT(run.err(), Contains("hvdrun: host node2 reaches rank 0's host at 10.77.1.1:"));
  HvdrunProcess turned({"--verbose", "-H", "node2:1,node1:1", "true"}, lab.on(0));  // rank 0 is on the other host
  CHECK(turned.wait() == 0);
  CHECK_THAT(turned.err(), Contains("hvdrun: host node1 reaches rank 0's host at 10.77.1.2:"));
  CHECK_THAT(run.err(), !Contains(" 10.77.2.1:"));  // no ssh connected from there, so the store does not listen there
}

TEST_CASE("the ranks of another host share their agent's connection to the store") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess run({"--verbose", "-H", "node2:4", RUEDA_LAUNCHER_RANK, "begin", "death"}, lab.on(0));
  run.read_errors_until(", store at 10.77.1.1:");
  const auto established = [&](int host, const std::string& filter) {
    return lab.shell(host, "ss -Htn state established " + filter + " | wc -l");
  };
  while (established(1, "src 127.0.0.1") != "8\n") {  // both ends of four
  }
  const int port = std::stoi(run.err().substr(run.err().find(", store at 10.77.1.1:") + 21));
  CHECK(established(0, "sport = :" + std::to_string(port)) == "1\n");
  run.send_by_name("hvdrun", SIGTERM);
  CHECK(run.wait() != 0);
  run.wait_for_all_to_end();
}

TEST_CASE("the first failure decides the exit code on whichever host it is") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  HvdrunProcess run({"-H", "node1:1,node2:2", "--grace-seconds", "1", "sh", "-c",
                     "test $RUEDA_RANK = 2 && { echo why >&2; exit 7; }; exec sleep 1000"},
                    lab.on(0));
  CHECK(run.wait() == 7);
  CHECK_THAT(run.err(), Contains("the first to fail: rank 2 (host node2, pid "));
  CHECK_THAT(run.err(), Contains(") exited with code 7\n"));
  CHECK(run.last_error() == "hvdrun:   why");
  run.wait_for_all_to_end();
}

TEST_CASE("signals reach the ranks of every host") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    HvdrunProcess run({"-H", "node1:1,node2:1", "sh", "-c",
                       "trap 'echo caught; exit 5' INT TERM USR1; echo ready; sleep 1000 & wait"},
                      lab.on(0));
    run.read_until("[0]<stdout>:ready");
    run.read_until("[1]<stdout>:ready");
    run.send_by_name("hvdrun", number);
    INFO("signal " << number);
    CHECK(run.wait() == 5);
    CHECK(said_by(run, 1) == Lines{"ready", "caught"});
    run.wait_for_all_to_end();
  }
}

TEST_CASE("hvdrun logs in to this host for another user, and not for its own") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  static_cast<void>(lab.shell(0,
                              "sed 's|^nobody:.*|nobody:x:65534:65534::/:/bin/sh|' /etc/passwd > /run/passwd; "
                              "mount --bind /run/passwd /etc/passwd"));
  HvdrunProcess other({"-H", "nobody@node1:1,root@" + NetLab::address(0) + ":1", "id", "-un"}, lab.on(0));
  CHECK(other.wait() == 0);
  INFO(other.err());
  CHECK(said_by(other, 0) == Lines{"nobody"});
  CHECK(said_by(other, 1) == Lines{"root"});
}

TEST_CASE("a host with this one's name in another domain is the other host if its address says so") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  static_cast<void>(lab.shell(0, "echo '" + NetLab::address(1) + " node1.elsewhere.org' >> /etc/hosts; echo '" +
                                     NetLab::address(0) + " node1.here.org' >> /etc/hosts; " +
                                     "sed -n 's/^node2,/node1.elsewhere.org,/p' /etc/ssh/ssh_known_hosts > /run/known; "
                                     "cat /run/known >> /etc/ssh/ssh_known_hosts"));
  HvdrunProcess run({"--verbose", "-H", "node1.elsewhere.org:1,node1.here.org:1,node1.unknown.org:1", "hostname"},
                    lab.on(0));
  CHECK(run.wait() == 0);
  INFO(run.err());
  for (int rank = 0; rank < 3; ++rank) CHECK(said_by(run, rank) == Lines{rank == 0 ? "node2" : "node1"});
  for (const char* here : {"here", "unknown"})
    CHECK_THAT(run.err(), Contains("host node1." + std::string(here) + ".org (node1) is this one"));
}
