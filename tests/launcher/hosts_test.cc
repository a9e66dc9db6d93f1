// Lists of hosts, hostfiles, and the ranks that each host gets.

#include "launcher/hosts.h"

#include <pwd.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace rueda::core;
using namespace rueda::core::launcher;

TEST_CASE("a list of hosts has names with slots, one slot if no number is given") {
  const auto hosts = parse_hosts("a:2, b ,[::1]:3,fe80::1");
  REQUIRE(hosts.ok());
  CHECK(hosts.value() == std::vector<HostSlots>{{"a", 2}, {"b", 1}, {"::1", 3}, {"fe80::1", 1}});
}

TEST_CASE("a host may begin with a user") {
  const auto hosts = parse_hosts("me@a:2,you@[fd00::1]:3,it@b");
  REQUIRE(hosts.ok());
  CHECK(hosts.value() == std::vector<HostSlots>{{"a", 2, "me"}, {"fd00::1", 3, "you"}, {"b", 1, "it"}});
  CHECK(parse_hostfile("me@a slots=2\n[fd00::1] slots=3\n").value() ==
        std::vector<HostSlots>{{"a", 2, "me"}, {"fd00::1", 3, ""}});
  CHECK(parse_hosts("me@a:1,you@a:1").status().sentence() ==
        "host \"a\" is given twice; give it once with all its slots");
}

TEST_CASE("names that a shell or ssh could misread are refused") {
  for (const std::string text :
       {"a b", "$(id)", "a;b", "a`id`", "me@-x", "-l@a", "@a", "me@", "a/b", "m e@a", "a\nb", "a%b", "a:b"}) {
    INFO(text);
    CHECK(parse_hosts(text + ":2").status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("an entry that is no host is refused and quoted") {
  for (const std::string text : {"a:0", "a:x", "a:-1", "a:", ":2", "a:99999999999", "-oProxyCommand=x:1"}) {
    const auto hosts = parse_hosts(text);
    INFO(text);
    REQUIRE_FALSE(hosts.ok());
    CHECK(hosts.status().sentence().find("\"" + text + "\"") == 0);
  }
  CHECK(parse_hosts("a:1,,b:1").status().sentence() == "\"a:1,,b:1\" has an empty host name");
  CHECK(parse_hosts("").status().code() == Code::kInvalidArgument);
  CHECK(parse_hosts("a:1,a:2").status().sentence() == "host \"a\" is given twice; give it once with all its slots");
}

TEST_CASE("a hostfile has one host per line, and comments and blank lines do not count") {
  const auto hosts = parse_hostfile("# nodes\n\na slots=4 # big\n  b\t slots=2\r\nc\n");
  REQUIRE(hosts.ok());
  CHECK(hosts.value() == std::vector<HostSlots>{{"a", 4}, {"b", 2}, {"c", 1}});
  CHECK(parse_hostfile("a slots=4\nb slot=2\n").status().sentence().find("line 2: \"b slot=2\"") == 0);
  const auto wrong = [](const std::string& text) { return parse_hostfile(text).status().sentence(); };
  CHECK(wrong("a slots=4\na\n") == "line 2: host \"a\" is given twice; give it once with all its slots");
  CHECK(wrong("\n$a slots=4\n").find("line 2: \"$a\" is not a host name") == 0);
  CHECK(wrong("node1:2\n") ==
        "line 1: \"node1:2\" is neither a host name nor an IPv6 address; write slots as in `node1 slots=2`");
  CHECK(parse_hostfile("fd00::1 slots=2\nme@fe80::1%eth0\n").ok());
  CHECK(parse_hostfile("# none\n").status().sentence() == "it names no host");
}

TEST_CASE("ranks fill the hosts in order, and a cross rank counts only hosts that have the local rank") {
  const auto placed = place(5, {{"a", 3}, {"b", 1}, {"c", 4}});
  REQUIRE(placed.ok());
  REQUIRE(placed.value().size() == 5);
  const std::vector<std::string> hosts = {"a", "a", "a", "b", "c"};
  const std::vector<std::vector<int>> numbers = {// local rank, local size, cross rank, cross size
                                                 {0, 3, 0, 3},
                                                 {1, 3, 0, 1},
                                                 {2, 3, 0, 1},
                                                 {0, 1, 1, 3},
                                                 {0, 1, 2, 3}};
  for (size_t rank = 0; rank < 5; ++rank) {
    const auto& p = placed.value()[rank];
    INFO("rank " << rank);
    CHECK(p.rank == static_cast<int>(rank));
    CHECK(p.size == 5);
    CHECK(p.host == hosts[rank]);
    CHECK(std::vector<int>{p.local_rank, p.local_size, p.cross_rank, p.cross_size} == numbers[rank]);
  }
}

TEST_CASE("more processes than slots is an error that shows both numbers") {
  const auto placed = place(5, {{"a", 3}, {"b", 1}});
  REQUIRE_FALSE(placed.ok());
  CHECK(placed.status().code() == Code::kInvalidArgument);
  CHECK(placed.status().sentence().find("5 processes do not fit into 4 slots on 2 hosts") == 0);
}

TEST_CASE("localhost and loopback addresses mean this host, other addresses do not") {
  for (const char* name : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) CHECK(is_this_host(name));
  CHECK_FALSE(is_this_host("no-such-host.invalid"));
  CHECK_FALSE(is_this_host("192.0.2.1"));  // RFC 5737: for documentation only
}

TEST_CASE("a host without ranks is not part of the job") {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"localhost", 1}, {"c", 4}};
  const auto shares = share_out(hosts, place(3, hosts).value());
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].host == hosts[0]);
  CHECK_FALSE(shares[0].here);
  CHECK(shares[0].ranks.size() == 2);
  CHECK(shares[1].host == hosts[1]);
  CHECK(shares[1].here);
  REQUIRE(shares[1].ranks.size() == 1);
  CHECK(shares[1].ranks[0].rank == 2);
}

TEST_CASE("this host under another user is reached like any other host") {
  CHECK_FALSE(is_this_user(""));
  CHECK_FALSE(is_this_user("no-such-user"));
  const std::string own = getpwuid(geteuid())->pw_name;
  for (const std::string& user : {std::string(), own, std::string("no-such-user")}) {
    const std::vector<HostSlots> hosts = {{"localhost", 1, user}};
    INFO("user \"" << user << "\"");
    CHECK(share_out(hosts, place(1, hosts).value()).front().here == (user != "no-such-user"));
  }
}
