#include "runtime/net/tcp_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <string>

#include "runtime/net/interfaces.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;
using namespace std::chrono_literals;

namespace {

/// A stranger's blocking connection to a port of this host; reads give up after a minute.
UniqueFd connect_as_stranger(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{60, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

void say(const UniqueFd& fd, const std::string& text) {
  REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

/// Whether the other side closes without having said anything.
bool is_dropped(const UniqueFd& fd) {
  char byte;
  const ssize_t got = ::recv(fd.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

/// One byte each way between two ranks.
Status greet(TcpRanks& ranks, int rank, int peer, const Abort& abort, Deadline deadline) {
  auto set = ranks.transport(rank).channel_set(0, abort);
  auto channel = set->to(peer, deadline);
  if (!channel.ok()) return channel.status();
  const std::byte mine{static_cast<unsigned char>(rank)};
  std::byte theirs{255};
  channel.value()->send(std::span(&mine, 1));
  channel.value()->receive(std::span(&theirs, 1));
  Status moved = set->until([&] { return channel.value()->sent() == 1 && channel.value()->received() == 1; }, deadline);
  if (!moved.ok()) return moved;
  return theirs == std::byte{static_cast<unsigned char>(peer)} ? Status() : Status(Code::kMismatch, "wrong byte");
}

std::string greet_both(TcpRanks& ranks, int low, int high) {
  const Abort abort;
  const Deadline deadline = Deadline::after(60s);
  auto other = std::async(std::launch::async, [&] { return greet(ranks, high, low, abort, deadline); });
  const Status mine = greet(ranks, low, high, abort, deadline);
  return mine.sentence() + other.get().sentence();
}

/// Waits for the next frame on a link that a coordinator thread serves.
std::optional<Frame> next_frame(ControlLink& link) {
  const Deadline deadline = Deadline::after(60s);
  while (!deadline.passed()) {
    if (auto frame = link.receive()) return frame;
    if (!link.status().ok()) return link.receive();
    std::this_thread::yield();
  }
  return std::nullopt;
}

Status end_of(ControlLink& link) {
  const Deadline deadline = Deadline::after(60s);
  while (link.status().ok() && !deadline.passed()) std::this_thread::yield();
  return link.status();
}

Frame frame_of(size_t bytes, int seed) {
  Frame frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<std::byte>((i * 13 + static_cast<size_t>(seed)) & 0xff);
  return frame;
}

}  // namespace

TEST_CASE("strangers that say nothing, half a hello, HTTP or noise are dropped while real peers connect") {
  TcpRanks ranks(2);
  const uint16_t port = ranks.transport(0).port();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connect_as_stranger(port));
  auto web = connect_as_stranger(port), half = connect_as_stranger(port), noise = connect_as_stranger(port),
       tls = connect_as_stranger(port);
  say(web, "GET / HTTP/1.1\r\nHost: rueda\r\n\r\n");
  say(half, "D" + std::string(30, 'x'));
  say(noise, "D" + std::string(4096, '\xa5'));
  say(tls, "C" + std::string(4096, '\x16'));
  CHECK(greet_both(ranks, 0, 1) == "");
  CHECK(is_dropped(web));
  CHECK(is_dropped(noise));
  for (int i = 0; i < 40; ++i) silent.push_back(connect_as_stranger(port));  // more than may be pending
  CHECK(is_dropped(silent.front()));
  CHECK(is_dropped(half));
}

TEST_CASE("a dialler with another key is refused, and peers with the right one are not disturbed") {
  TcpRanks::Options options;
  options.key_seeds = {1, 1, 99};
  TcpRanks ranks(3, options);
  const Abort abort;
  auto set = ranks.transport(2).channel_set(0, abort);
  const Status refused = set->to(0, Deadline::after(200ms)).status();
  CHECK(refused.code() == Code::kTimeout);
  CHECK(refused.rank() == 0);
  CHECK(refused.sentence().find("rank 2 cannot reach rank 0 (host host0, pid 1000) (127.0.0.1:") == 0);
  CHECK(greet_both(ranks, 0, 1) == "");
}

TEST_CASE("a dialler of another epoch is refused") {
  TcpRanks ranks(2);
  TransportEpoch old = ranks.epoch(1);
  old.epoch = 99;
  auto zombie = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(zombie.ok());
  REQUIRE(zombie.value()->configure(old).ok());
  const Abort abort;
  auto set = zombie.value()->channel_set(0, abort);
  CHECK(set->to(0, Deadline::after(200ms)).status().code() == Code::kTimeout);
  set.reset();
  CHECK(greet_both(ranks, 0, 1) == "");
}

TEST_CASE("control links join rank 0 to every other rank, with a key and without") {
  TcpRanks::Options options;
  options.keyed = GENERATE(true, false);
  options.control = true;
  TcpRanks ranks(3, options);
  for (int rank = 1; rank < 3; ++rank) {
    auto up = ranks.transport(rank).control_link(0), down = ranks.transport(0).control_link(rank);
    REQUIRE(up != nullptr);
    REQUIRE(down != nullptr);
    const size_t sizes[] = {1, 70'000};
    for (const size_t bytes : sizes) {
      up->send(frame_of(bytes, rank), Urgency::kRing);
      down->send(frame_of(bytes, rank + 50), Urgency::kRing);
    }
    for (const size_t bytes : sizes) {
      CHECK(next_frame(*down) == frame_of(bytes, rank));
      CHECK(next_frame(*up) == frame_of(bytes, rank + 50));
    }
    CHECK(up->status().ok());
  }
  CHECK(ranks.transport(1).control_link(2) == nullptr);
}

TEST_CASE("a control link whose peer goes without a goodbye says peer lost and names the peer") {
  TcpRanks::Options options;
  options.control = true;
  TcpRanks ranks(2, options);
  auto link = ranks.transport(0).control_link(1);
  ranks.stop(1);
  const Status lost = end_of(*link);
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == 1);
  CHECK(lost.sentence().find("rank 1 (host host1, pid 1001)") == 0);
}

TEST_CASE("control connections that never come are named at the deadline") {
  auto lonely = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(lonely.ok());
  TransportEpoch epoch{"job", 1, 0, test_key(1), true, false, 1, {}};
  for (int rank = 0; rank < 3; ++rank) {
    epoch.ranks.push_back({"h" + std::to_string(rank), 7 + rank, {"127.0.0.1"}, lonely.value()->port()});
  }
  REQUIRE(lonely.value()->configure(epoch).ok());
  const std::array<int, 2> others = {1, 2};
  const Status late = lonely.value()->connect_control(others, Deadline::after(1ms), [](int) { return Status(); });
  CHECK(late.code() == Code::kTimeout);
  CHECK(late.sentence() ==
        "rank 0 waited at port " + std::to_string(lonely.value()->port()) +
            " for control connections that never came from rank 1 (host h1, pid 8), rank 2 (host h2, pid 9)");
}

TEST_CASE("poll calls the watcher of a descriptor that became readable, until it is unwatched") {
  auto transport = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(transport.ok());
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  transport.value()->watch(bell.get(), [&] {
    eventfd_t count;
    ::eventfd_read(bell.get(), &count);
    ++calls;
  });
  transport.value()->poll(0ns);
  CHECK(calls == 0);
  for (int ring = 1; ring <= 4; ++ring) {
    ::eventfd_write(bell.get(), 1);
    transport.value()->poll(ring % 2 == 0 ? 0ns : 60s);  // what is ready is handled without time, too
    CHECK(calls == ring);
  }
  transport.value()->watch(bell.get(), [&] { transport.value()->unwatch(bell.get()); });
  ::eventfd_write(bell.get(), 1);
  transport.value()->poll(60s);
  transport.value()->poll(0ns);
  CHECK(calls == 4);
  CHECK(::eventfd_write(bell.get(), 1) == 0);  // the descriptor stayed open
}

TEST_CASE("a transport listens on one port of every address given, and on nothing else") {
  auto transport = TcpTransport::listen({"127.0.0.1", "127.0.0.2"});
  REQUIRE(transport.ok());
  CHECK(transport.value()->addresses().size() == 2);
  CHECK_FALSE(TcpTransport::listen({"not an address"}).ok());
  CHECK(TcpTransport::listen({}).status().code() == Code::kInvalidArgument);
  CHECK(TcpTransport::listen({"203.0.113.7"}).status().code() == Code::kSystem);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(transport.value()->port());
  REQUIRE(::inet_pton(AF_INET, "127.0.0.3", &address.sin_addr) == 1);
  CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0);
}

TEST_CASE("addresses to listen on are those of the named interfaces, with loopback last") {
  const auto chosen = listen_addresses("auto");
  REQUIRE(chosen.ok());
  CHECK(chosen.value().back() == "127.0.0.1");
  for (const char* choice : {"127.0.0.1", "127.0.0.0/8", "127.0.0.1/32", "lo", "::1,lo", "nosuch*,lo"}) {
    const auto loopback = listen_addresses(choice);
    REQUIRE(loopback.ok());
    CHECK(loopback.value() == std::vector<std::string>{"127.0.0.1"});
  }
  CHECK(listen_addresses("*").ok());
  CHECK_FALSE(listen_addresses("127.0.0.0/33").ok());
  CHECK_FALSE(listen_addresses("126.0.0.0/8").ok());
  const Status unknown = listen_addresses("nosuch0").status();
  CHECK(unknown.code() == Code::kInvalidArgument);
  CHECK(unknown.sentence().find("\"nosuch0\"") != std::string::npos);
}
