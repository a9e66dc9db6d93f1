#include "launcher/hosts.h"

#include <catch2/catch.hpp>

using namespace rueda::core;
using namespace rueda::core::launcher;

TEST_CASE("hosts are names with slots, one where none are given") {
  const auto hosts = parse_hosts("a:2, b ,[::1]:3,fe80::1");
  REQUIRE(hosts.ok());
  CHECK(hosts.value() == std::vector<HostSlots>{{"a", 2}, {"b", 1}, {"::1", 3}, {"fe80::1", 1}});
}

TEST_CASE("what is not a host is refused with its own words") {
  for (const std::string text : {"a:0", "a:x", "a:-1", "a:", ":2", "a:99999999999", "-oProxyCommand=x:1"}) {
    const auto hosts = parse_hosts(text);
    INFO(text);
    REQUIRE_FALSE(hosts.ok());
    CHECK(hosts.status().sentence().find("\"" + text + "\"") == 0);
  }
  CHECK(parse_hosts("a:1,,b:1").status().sentence() == "\"a:1,,b:1\" has an empty host name");
  CHECK(parse_hosts("").status().code() == Code::kInvalidArgument);
  CHECK(parse_hosts("a:1,a:2").status().sentence() == "host \"a\" is given twice; add its slots up");
}

TEST_CASE("a hostfile has a host a line, comments and blank lines aside") {
  const auto hosts = parse_hostfile("# nodes\n\na slots=4 # big\n  b\t slots=2\r\nc\n");
  REQUIRE(hosts.ok());
  CHECK(hosts.value() == std::vector<HostSlots>{{"a", 4}, {"b", 2}, {"c", 1}});
  CHECK(parse_hostfile("a slots=4\nb slot=2\n").status().sentence().find("line 2: \"b slot=2\"") == 0);
  CHECK(parse_hostfile("# none\n").status().sentence() == "it names no host");
}

TEST_CASE("ranks fill the hosts in order, and cross ranks count the hosts that have the local rank") {
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

TEST_CASE("localhost and loopback addresses are this host, others are not") {
  for (const char* name : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) CHECK(is_this_host(name));
  CHECK_FALSE(is_this_host("no-such-host.invalid"));
}
