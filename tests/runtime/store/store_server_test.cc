// What clients that are hostile, slow or gone do to a StoreServer, and what a client makes of a server that is.
#include "runtime/store/store_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "runtime/base/unique_fd.h"
#include "runtime/net/socket_address.h"
#include "runtime/store/death.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_protocol.h"
#include "tests/support/deadlines.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mirror.h"
#include "tests/support/raw_connection.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

JobKey key_of(uint8_t byte) {
  JobKey key;
  key.present = true;
  key.bytes.fill(byte);
  return key;
}

/// A blocking socket to the server, for bytes of the test's own.
UniqueFd raw_connection(uint16_t port) {
  const SocketAddress address = SocketAddress::parse("127.0.0.1", port).value();
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), address.raw(), address.bytes) == 0);
  return fd;
}

void send_bytes(const UniqueFd& fd, std::span<const std::byte> bytes) {
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

/// Waits until the server has closed the connection; whatever it sends before is dropped.
bool closed_by_server(const UniqueFd& fd) {
  char bytes[4096];
  for (;;) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, 120'000) <= 0) return false;
    const ssize_t got = ::recv(fd.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) return true;
  }
}

bool has_answer(const UniqueFd& fd) {
  std::byte bytes[4096];
  pollfd entry{fd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 120'000) == 1 && ::recv(fd.get(), bytes, sizeof(bytes), 0) > 0;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<std::byte> frame_of(std::string_view body) {
  std::vector<std::byte> frame(4);
  const auto length = static_cast<uint32_t>(body.size());
  std::memcpy(frame.data(), &length, 4);
  const auto rest = bytes_of(body);
  frame.insert(frame.end(), rest.begin(), rest.end());
  return frame;
}

/// What a client with the key says who adds 1 to "n", again on new connections.
void replay_client(int count) {
  StoreServerOptions options;
  options.key = key_of(9);
  const auto server = StoreServer::start(options).value();
  std::string said, heard;
  {
    test::FaultProxy proxy({.target = server->port()});
    const auto client = StoreClient::connect({"127.0.0.1", proxy.port(), "job", options.key}, late()).value();
    REQUIRE(client->add("n", 1).value() == 1);
    said = proxy.recorded(test::Flow::kUp);
    heard = proxy.recorded(test::Flow::kDown);
  }
  for (int i = 0; i < count; ++i) {
    test::RawConnection stranger(server->port());
    stranger.say(said);
    REQUIRE(stranger.hear_all().size() < heard.size());
  }
  CHECK(server->get("n", late()).value() == "1");
}

TEST_CASE("what a client said, said again on new connections, does nothing") { replay_client(kThorough ? 50 : 10); }

TEST_CASE("what a client said, said again thousands of times, does nothing", "[.][long]") { replay_client(20'000); }

TEST_CASE("who sends a client's own bytes back to it is not a store") {
  test::Mirror mirror;
  const auto client = StoreClient::connect({"127.0.0.1", mirror.port(), "job", key_of(1)}, late());
  REQUIRE_FALSE(client.ok());
  CHECK(client.status().code() == Code::kSystem);
}

TEST_CASE("garbage ends its connection and nothing else") {
  for (const bool keyed : {false, true}) {
    StoreServerOptions options;
    if (keyed) options.key = key_of(7);
    const auto server = StoreServer::start(options).value();
    const std::string huge("\xff\xff\xff\x7f rest", 9);
    for (const auto& bytes :
         {bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), bytes_of(huge), bytes_of(std::string(4, '\0')),
          frame_of("no request"), frame_of(std::string(3000, '\x16'))}) {
      CAPTURE(keyed, bytes.size());
      const UniqueFd fd = raw_connection(server->port());
      send_bytes(fd, bytes);
      if (keyed) ::shutdown(fd.get(), SHUT_WR);  // a record of TLS that is not complete is waited for
      CHECK(closed_by_server(fd));
    }
    const auto client = StoreClient::connect({"127.0.0.1", server->port(), "job", options.key}, late()).value();
    CHECK(client->set("k", "v").ok());
    CHECK(server->get("k", late()).value() == "v");
  }
}

TEST_CASE("every truncation of a request ends its connection without an answer") {
  const auto server = StoreServer::start({}).value();
  const auto whole = encode(StoreRequest{StoreOperation::kSet, "key", 0, "value"});
  for (size_t length = 1; length < whole.size(); ++length) {
    CAPTURE(length);
    const UniqueFd fd = raw_connection(server->port());
    send_bytes(fd, std::span(whole).first(length));
    ::shutdown(fd.get(), SHUT_WR);
    CHECK(closed_by_server(fd));
  }
  CHECK(server->get("key", Deadline::after(milliseconds(1))).status().code() == Code::kTimeout);
  const UniqueFd fd = raw_connection(server->port());
  send_bytes(fd, whole);
  CHECK(has_answer(fd));
  CHECK(server->get("key", late()).value() == "value");
}

TEST_CASE("another key is refused and said to be one") {
  StoreServerOptions options;
  options.key = key_of(1);
  const auto server = StoreServer::start(options).value();
  CHECK(server->turned_away().empty());
  const auto client = StoreClient::connect({"127.0.0.1", server->port(), "job", key_of(2)}, late());
  REQUIRE_FALSE(client.ok());
  while (server->turned_away().empty()) std::this_thread::yield();
  CHECK_THAT(server->turned_away(),
             Contains("1 connection to this rank's store proved no knowledge of the job's key; the "
                      "last came from 127.0.0.1:"));
  CHECK(client.status().code() == Code::kSystem);
  CHECK_THAT(client.status().sentence(), Contains("another job key") && Contains(std::to_string(server->port())));
}

TEST_CASE("the same key under another job's name is refused") {
  StoreServerOptions options;
  options.key = key_of(1);
  const auto server = StoreServer::start(options).value();
  CHECK_FALSE(StoreClient::connect({"127.0.0.1", server->port(), "other", key_of(1)}, late()).ok());
}

TEST_CASE("a client without a key gets nothing from a server with one") {
  StoreServerOptions options;
  options.key = key_of(1);
  const auto server = StoreServer::start(options).value();
  CHECK(StoreClient::connect({"127.0.0.1", server->port(), "job", {}}, late()).status().code() == Code::kSystem);
  CHECK(server->get("k", Deadline::after(milliseconds(1))).status().code() == Code::kTimeout);
}

TEST_CASE("who stays silent, or dribbles, is dropped before the first request") {
  StoreServerOptions options;
  if (GENERATE(true, false)) {
    options.key = key_of(1);
    options.proof = milliseconds(50);
  } else {
    options.silence = milliseconds(50);  // nothing is proven without a key
  }
  const auto server = StoreServer::start(options).value();
  const UniqueFd silent = raw_connection(server->port());
  const UniqueFd begun = raw_connection(server->port());
  const auto request = encode(StoreRequest{StoreOperation::kSet, "key", 0, "value"});
  send_bytes(begun, std::span(request).first(6));
  CHECK(closed_by_server(silent));
  CHECK(closed_by_server(begun));
}

TEST_CASE("a client that has proven itself may be silent, and wait, as long as it likes") {
  StoreServerOptions options;
  options.key = key_of(1);
  options.silence = milliseconds(20);
  const auto server = StoreServer::start(options).value();
  const StoreLocation where{"127.0.0.1", server->port(), "job", key_of(1)};
  const auto idle = StoreClient::connect(where, late()).value();
  REQUIRE(idle->set("a", "1").ok());
  const auto waiting = StoreClient::connect(where, late()).value();
  CHECK(waiting->get("never", Deadline::after(milliseconds(200))).status().code() == Code::kTimeout);
  CHECK(idle->get("a", late()).value() == "1");  // ten times the limit later
}

TEST_CASE("when too many have proven nothing the oldest of them is dropped") {
  StoreServerOptions options;
  options.max_unproven = 4;
  const auto server = StoreServer::start(options).value();
  const auto proven = StoreClient::connect({"127.0.0.1", server->port(), "job", {}}, late()).value();
  REQUIRE(proven->set("a", "1").ok());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(raw_connection(server->port()));
  CHECK(closed_by_server(silent[0]));
  send_bytes(silent[4], encode(StoreRequest{StoreOperation::kGet, "a", 0, {}}));
  CHECK(has_answer(silent[4]));
  CHECK(proven->get("a", late()).value() == "1");
}

TEST_CASE("a first request over 1 KiB ends its connection, a later one is answered") {
  const auto server = StoreServer::start({}).value();
  const auto large = encode(StoreRequest{StoreOperation::kSet, "large", 0, std::string(kMaxFirstFrameBytes, 'x')});
  const UniqueFd stranger = raw_connection(server->port());
  send_bytes(stranger, large);
  CHECK(closed_by_server(stranger));
  CHECK(server->get("large", Deadline::after(milliseconds(1))).status().code() == Code::kTimeout);
  const UniqueFd fd = raw_connection(server->port());
  send_bytes(fd, encode(StoreRequest{StoreOperation::kAdd, "n", 1, {}}));
  REQUIRE(has_answer(fd));
  send_bytes(fd, large);
  CHECK(has_answer(fd));
  CHECK(server->get("large", late()).ok());
}

TEST_CASE("a client that is dropped at any byte before its first answer dials again") {
  StoreServerOptions options;
  options.key = key_of(5);
  const auto server = StoreServer::start(options).value();
  test::FaultProxy whole({.target = server->port()});
  REQUIRE(StoreClient::connect({"127.0.0.1", whole.port(), "job", options.key}, late()).ok());
  for (const test::Flow flow : {test::Flow::kUp, test::Flow::kDown}) {
    for (size_t at = 0; at < whole.recorded(flow).size(); at += kThorough ? 1 : 31) {
      const auto kind = at % 2 == 0 ? test::CutKind::kFin : test::CutKind::kReset;
      CAPTURE(flow == test::Flow::kUp, at);
      test::FaultProxy proxy({.target = server->port(), .cut = test::Cut{flow, at, kind}});
      const auto client = StoreClient::connect({"127.0.0.1", proxy.port(), "job", options.key}, late());
      REQUIRE(client.status().sentence() == "");
      CHECK(proxy.has_cut());
      CHECK(client.value()->set("k", "v").ok());
    }
  }
}

TEST_CASE("a request is answered while an earlier one waits, and two with one id end their connection") {
  const auto server = StoreServer::start({}).value();
  const UniqueFd fd = raw_connection(server->port());
  auto both = encode(StoreRequest{StoreOperation::kGet, "k", -1, {}, 1});
  const auto second = encode(StoreRequest{StoreOperation::kAdd, "n", 5, {}, 2});
  both.insert(both.end(), second.begin(), second.end());
  send_bytes(fd, both);
  CHECK(has_answer(fd));
  CHECK(server->get("n", late()).value() == "5");
  send_bytes(fd, encode(StoreRequest{StoreOperation::kGet, "l", -1, {}, 1}));
  CHECK(closed_by_server(fd));
}

TEST_CASE("a client whose server goes says so from then on") {
  auto server = StoreServer::start({}).value();
  const auto port = server->port();
  const auto client = StoreClient::connect({"127.0.0.1", port, "job", {}}, late()).value();
  REQUIRE(client->set("a", "1").ok());
  server.reset();
  const auto value = client->get("b", late());
  CHECK(value.status().code() == Code::kSystem);
  CHECK_THAT(value.status().sentence(), Contains("127.0.0.1:" + std::to_string(port)));
  CHECK(client->set("a", "2").code() == Code::kSystem);
}

TEST_CASE("once the end key says who died, nobody waits for a key that will not come") {
  StoreServerOptions options;
  options.key = key_of(1);
  options.waits = StoreWaits::kForJobsToEnd;
  const auto server = StoreServer::start(options).value();
  StoreLocation where;
  where.host = "127.0.0.1";
  where.port = server->port();
  where.job = options.job;
  where.key = options.key;
  const DeathVerdict verdict{0, 1, "a", 42, "exited with code 3"};
  const auto early = StoreClient::connect(where, late()).value();
  const auto late_comer = StoreClient::connect(where, late()).value();
  REQUIRE(server->set("there", "value").ok());
  std::thread waiter([&] {
    const auto value = early->get("job/never", late());
    CHECK(value.status().code() == Code::kPeerLost);
    CHECK(value.status().sentence() == verdict.status().sentence());
  });
  REQUIRE(server->set("job/death", encode(verdict)).ok());
  waiter.join();
  CHECK(late_comer->get("job/never", late()).status().code() == Code::kPeerLost);
  CHECK(late_comer->get("there", late()).value() == "value");
  CHECK(late_comer->get("job/death", late()).ok());
}

TEST_CASE("a client waits for a server that comes later") {
  const uint16_t port = StoreServer::start({}).value()->port();  // free again
  std::thread thread([port] {
    const auto client = StoreClient::connect({"127.0.0.1", port, "job", {}}, late());
    if (client.ok()) static_cast<void>(client.value()->set("came", "yes"));
  });
  StoreServerOptions options;
  options.port = port;
  const auto server = StoreServer::start(options).value();
  CHECK(server->get("came", late()).value() == "yes");
  thread.join();
}

TEST_CASE("where nobody serves a client gives up at its deadline and says why") {
  const uint16_t port = StoreServer::start({}).value()->port();
  const auto client = StoreClient::connect({"127.0.0.1", port, "job", {}}, Deadline::after(milliseconds(50)));
  REQUIRE_FALSE(client.ok());
  CHECK(client.status().code() == Code::kTimeout);
  CHECK_THAT(client.status().sentence(), Contains("refused") && Contains(std::to_string(port)));
}

TEST_CASE("a store with several addresses is one store with one port") {
  StoreServerOptions options;
  options.addresses = {"127.0.0.1", "127.0.0.3", "127.0.0.2"};
  const auto server = StoreServer::start(options).value();
  for (const std::string address : {"127.0.0.1", "127.0.0.2", "127.0.0.3"}) {
    INFO(address);
    const auto client = StoreClient::connect({address, server->port(), "job", {}}, late());
    REQUIRE(client.ok());
    CHECK(client.value()->set(address, "came").ok());
    CHECK(server->get(address, late()).value() == "came");
  }
  const auto elsewhere =
      StoreClient::connect({"127.0.0.4", server->port(), "job", {}}, Deadline::after(milliseconds(50)));
  CHECK(elsewhere.status().code() == Code::kTimeout);
}

TEST_CASE("an address that this machine does not have cannot be served") {
  StoreServerOptions options;
  options.addresses = {"192.0.2.1"};  // RFC 5737: for documentation only
  CHECK(StoreServer::start(options).status().code() == Code::kSystem);
}

TEST_CASE("a watch says nothing until the value is there, then always") {
  StoreServerOptions options;
  options.key = key_of(3);
  const auto server = StoreServer::start(options).value();
  const auto watch = StoreWatch::start({"127.0.0.1", server->port(), "job", options.key}, "job/death", late()).value();
  CHECK_FALSE(watch->take().has_value());
  REQUIRE(server->set("job/other", "x").ok());
  CHECK_FALSE(watch->take().has_value());
  REQUIRE(server->set("job/death", "verdict").ok());
  std::optional<Result<std::string>> value;
  while (!value) {
    pollfd entry{watch->fd(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 120'000) == 1);
    value = watch->take();
  }
  CHECK(value->value() == "verdict");
  CHECK(watch->take()->value() == "verdict");
}

TEST_CASE("a watch says when its server has gone") {
  auto server = StoreServer::start({}).value();
  const auto watch = StoreWatch::start({"127.0.0.1", server->port(), "job", {}}, "job/death", late()).value();
  server.reset();
  std::optional<Result<std::string>> value;
  while (!value) {
    pollfd entry{watch->fd(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 120'000) == 1);
    value = watch->take();
  }
  CHECK(value->status().code() == Code::kSystem);
}

TEST_CASE("an address is host and port") {
  CHECK(parse_store_address("node1:4000").value().host == "node1");
  CHECK(parse_store_address("node1:4000").value().port == 4000);
  CHECK(parse_store_address("[::1]:1").value().host == "::1");
  for (const std::string text :
       {"", "node1", "node1:", ":4000", "node1:0", "node1:65536", "node1:4x", "node1:-1", "[]:1x"}) {
    CAPTURE(text);
    CHECK(parse_store_address(text).status().code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace rueda::core
