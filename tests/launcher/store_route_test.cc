// The addresses at which the store listens, and the search for one that answers.

#include "launcher/store_route.h"

#include <catch2/catch.hpp>

#include "runtime/net/socket_address.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Texts = std::vector<std::string>;

namespace {

constexpr std::chrono::minutes kLongEnough{2};

struct Server {
  UniqueFd socket;
  std::string address;  // with its port
};
Server listen_at(const std::string& numeric) {
  Server server;
  server.socket = listen_on(SocketAddress::parse(numeric, 0).value()).value();
  server.address = with_port(numeric, bound_port(server.socket.get()).value());
  return server;
}

std::string address_of_nobody() { return listen_at("127.0.0.2").address; }

}  // namespace

TEST_CASE("the store of a job on one host listens only on the loopback interface") {
  const auto routes = plan_store_routes({"10.0.0.1"}, {{true, ""}});
  REQUIRE(routes.ok());
  CHECK(routes.value().listen == Texts{"127.0.0.1"});
  CHECK(routes.value().of_host == std::vector<Texts>{{"127.0.0.1"}});
}

TEST_CASE("the store listens only at the addresses from which ssh reached the hosts") {
  const auto routes =
      plan_store_routes({"10.0.0.1", "10.0.1.1", "fd00::1"}, {{true, ""}, {false, "10.0.1.1"}, {false, "10.0.1.1"}});
  REQUIRE(routes.ok());
  CHECK(routes.value().listen == Texts{"127.0.0.1", "10.0.1.1"});
  CHECK(routes.value().of_host == std::vector<Texts>{{"127.0.0.1"}, {"10.0.1.1"}, {"10.0.1.1"}});
}

TEST_CASE("a host that ssh reached from an unknown address gets all our addresses") {
  for (const std::string client : {"", "192.0.2.7"}) {
    const auto routes = plan_store_routes({"10.0.0.1", "fd00::1"}, {{false, client}});
    REQUIRE(routes.ok());
    CHECK(routes.value().listen == Texts{"10.0.0.1", "fd00::1"});
    CHECK(routes.value().of_host == std::vector<Texts>{{"10.0.0.1", "fd00::1"}});
  }
}

TEST_CASE("a machine without addresses can serve only itself") {
  CHECK(plan_store_routes({}, {{true, ""}}).ok());
  CHECK_THAT(plan_store_routes({}, {{true, ""}, {false, ""}}).status().sentence(), Contains("no address"));
}

TEST_CASE("an IPv6 address with a port has brackets") {
  CHECK(with_port("10.0.0.1", 80) == "10.0.0.1:80");
  CHECK(with_port("fd00::1", 80) == "[fd00::1]:80");
}

TEST_CASE("an agent takes the first address of the store that answers") {
  const std::string refused = address_of_nobody();
  const Server server = listen_at("127.0.0.3");
  const Server other = listen_at("::1");
  const auto path = find_path({refused, server.address}, kLongEnough, "the store");
  REQUIRE(path.ok());
  CHECK(path.value().to == server.address);
  CHECK(path.value().from == "127.0.0.1");
  CHECK(find_path({other.address}, kLongEnough, "the store").value().from == "[::1]");
}

TEST_CASE("if no address of the store answers, the error has each one's reason") {
  const std::string refused = address_of_nobody();
  const auto path = find_path({refused, "not an address:1"}, kLongEnough, "the store");
  REQUIRE_FALSE(path.ok());
  CHECK(path.status().code() == Code::kSystem);
  CHECK_THAT(path.status().sentence(), Contains(refused + ": Connection refused") && Contains("not an address"));
  CHECK_THAT(find_path({}, kLongEnough, "the store").status().sentence(), Contains("no address"));
}
