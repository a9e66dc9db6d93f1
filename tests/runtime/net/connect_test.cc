#include "runtime/net/connect.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

using namespace rueda::core;
using namespace std::chrono_literals;

namespace {

struct Server {
  UniqueFd socket;
  SocketAddress address;
};

Server listen_at(const std::string& numeric) {
  Server server;
  server.socket = listen_on(SocketAddress::parse(numeric, 0).value()).value();
  server.address = SocketAddress::parse(numeric, bound_port(server.socket.get()).value()).value();
  return server;
}

/// An address whose listener has gone: the kernel refuses connections to it.
SocketAddress refusing() { return listen_at("127.0.0.2").address; }

/// An address that answers nothing: its accept queue holds one connection and is full, so the kernel drops every SYN.
class Silent {
 public:
  Silent() : server_(listen_at("127.0.0.3")) {
    REQUIRE(::listen(server_.socket.get(), 0) == 0);
    for (int i = 0; i < 4; ++i) {
      fillers_.push_back(open_tcp_socket(address()).value());
      static_cast<void>(::connect(fillers_.back().get(), address().raw(), address().bytes));
    }
  }
  const SocketAddress& address() const { return server_.address; }

 private:
  Server server_;
  std::vector<UniqueFd> fillers_;
};

using Addresses = std::vector<SocketAddress>;

}  // namespace

TEST_CASE("the first address that answers is connected, past refusing and silent ones") {
  const Silent silent;
  const Server first = listen_at("127.0.0.1"), second = listen_at("127.0.0.4");
  const Addresses addresses{refusing(), silent.address(), first.address, second.address};
  ConnectFailures failures;
  const auto connected = connect_first(addresses, Deadline::after(60s), failures);
  REQUIRE(connected.ok());
  CHECK(connected.value().index == 2);
  CHECK(peer_address(connected.value().fd.get()) == first.address.text());
}

TEST_CASE("an address in front of others that answer is preferred") {
  const Server first = listen_at("127.0.0.4"), second = listen_at("127.0.0.1");
  ConnectFailures failures;
  const auto connected = connect_first(Addresses{first.address, second.address}, Deadline::after(60s), failures);
  REQUIRE(connected.ok());
  CHECK(connected.value().index == 0);
}

TEST_CASE("if every address refuses, the call ends at once and gives each one's reason") {
  const Addresses addresses{refusing(), refusing()};
  ConnectFailures failures;
  CHECK(connect_first(addresses, Deadline::never(), failures).status().code() == Code::kSystem);
  CHECK(failures.all_refused);
  CHECK(failures.text(addresses) ==
        addresses[0].text() + ": Connection refused; " + addresses[1].text() + ": Connection refused");
}

TEST_CASE("an address that is still silent at the deadline gave no answer, and the others keep their reasons") {
  const Silent silent;
  const Addresses addresses{refusing(), silent.address()};
  ConnectFailures failures;
  CHECK(connect_first(addresses, Deadline::after(50ms), failures).status().code() == Code::kSystem);
  CHECK_FALSE(failures.all_refused);
  CHECK(failures.text(addresses) ==
        addresses[0].text() + ": Connection refused; " + silent.address().text() + ": no answer");
}

TEST_CASE("a refusal that comes at once is told even if the deadline has passed before the call") {
  const Addresses addresses{refusing()};
  ConnectFailures failures;
  CHECK(connect_first(addresses, Deadline::after(0s), failures).status().code() == Code::kSystem);
  CHECK(failures.text(addresses) == addresses[0].text() + ": Connection refused");
}

TEST_CASE("without an address there is nothing to connect to") {
  ConnectFailures failures;
  CHECK(connect_first(Addresses{}, Deadline::never(), failures).status().code() == Code::kSystem);
  CHECK_FALSE(failures.all_refused);
}
