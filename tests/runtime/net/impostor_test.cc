// Strangers without the job's key: they dial the ports of a rank that runs (replays, reflections, forgeries), or they
// listen at the address that a rank dials.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/hello.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/tcp_transport.h"
#include "runtime/store/store_client.h"
#include "tests/support/certificate_server.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mirror.h"
#include "tests/support/raw_connection.h"
#include "tests/support/scale.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;
using namespace rueda::test;
using namespace std::chrono_literals;

namespace {

const std::string kNoKey =
    "the server shows a certificate in place of the job's key: another program answers at this address; check the "
    "address, and that every rank has the same job key";

Deadline in_two_minutes() { return Deadline::after(2min); }

/// A rank once more, which finds rank 0 at another port.
std::unique_ptr<TcpTransport> rank_again(TcpRanks& ranks, int rank, uint16_t port) {
  auto transport = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(transport.ok());
  TransportEpoch epoch = ranks.epoch(rank);
  epoch.ranks[0].port = port;
  REQUIRE(transport.value()->configure(epoch).ok());
  return std::move(transport).value();
}

std::unique_ptr<TcpTransport> rank_one_again(TcpRanks& ranks, uint16_t port) { return rank_again(ranks, 1, port); }

template <typename Message>
std::string text_of_message(const Message& message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

/// What rank 1 says on a good data connection, and hears.
struct Recording {
  std::string up, down;
};

Recording record_data(TcpRanks& ranks) {
  FaultProxy proxy({.target = ranks.transport(0).port()});
  const auto one = rank_one_again(ranks, proxy.port());
  const Abort abort;
  const auto set = one->channel_set(0, abort);
  REQUIRE(set->to(0, in_two_minutes()).ok());
  return {proxy.recorded(Flow::kUp), proxy.recorded(Flow::kDown)};
}

Recording record_control(TcpRanks& ranks) {
  FaultProxy proxy({.target = ranks.transport(0).port()});
  const auto one = rank_one_again(ranks, proxy.port());
  const int peers[] = {0};
  REQUIRE(one->connect_control(peers, in_two_minutes(), [](int) { return Status(); }).ok());
  return {proxy.recorded(Flow::kUp), proxy.recorded(Flow::kDown)};
}

void replay_data(int count) {
  TcpRanks ranks(2);
  const Recording good = record_data(ranks);
  REQUIRE(good.up.size() == 1 + kHelloFirstBytes + kHelloThirdBytes);
  REQUIRE(good.down.size() == kHelloSecondBytes + 1);
  for (int i = 0; i < count; ++i) {
    RawConnection stranger(ranks.transport(0).port());
    stranger.say(good.up);
    const std::string heard = stranger.hear_all();
    REQUIRE(heard.size() == kHelloSecondBytes);  // and no word that it was accepted
    REQUIRE(heard != good.down.substr(0, kHelloSecondBytes));
  }
  record_data(ranks);  // rank 1 itself still gets in
}

void replay_control(int count) {
  TcpRanks ranks(2);
  const Recording good = record_control(ranks);
  for (int i = 0; i < count; ++i) {
    RawConnection stranger(ranks.transport(0).port());
    stranger.say(good.up);
    // The listener's part of the handshake, and an alert where rank 1 heard second and accepted.
    REQUIRE(stranger.hear_all().size() < good.down.size() - kHelloSecondBytes);
  }
  record_control(ranks);  // rank 1 itself still gets in
}

/// Claims to be rank 1, and gives as its proof what `forge` makes of the listener's answer.
template <typename Forge>
void forge_data(int count, const Forge& forge) {
  TcpRanks ranks(2);
  for (int i = 0; i < count; ++i) {
    HelloScope scope = ranks.epoch(1).hello_scope();
    scope.key = test_key(99);
    HelloDialler dialler(scope, 0, HelloPurpose::kData, 0);
    RawConnection stranger(ranks.transport(0).port());
    stranger.say("D" + text_of_message(dialler.first().value()));
    const std::string second = stranger.hear(kHelloSecondBytes);
    REQUIRE(second.size() == kHelloSecondBytes);
    stranger.say(forge(second));
    REQUIRE(stranger.hear_all().empty());
  }
}

std::string third_with(std::string_view proof) {
  const std::string head("RDH3\2\0\0\0", 8);
  return head + std::string(proof);
}

/// A proof made with another key: an accomplice with that key would take it.
std::string proof_for_other_key(TcpRanks& ranks) {
  HelloScope dialling = ranks.epoch(1).hello_scope();
  HelloScope listening = ranks.epoch(0).hello_scope();
  dialling.key = listening.key = test_key(99);
  HelloDialler dialler(dialling, 0, HelloPurpose::kData, 0);
  HelloListener accomplice(listening);
  const auto third = dialler.on_second(accomplice.on_first(dialler.first().value()).value());
  REQUIRE(third.ok());
  return text_of_message(third.value());
}

/// Stands between two diallers and one listener. Each dialler says hello to the listener; then everything that the
/// first dialler says goes to the listener's end of the second connection, and back.
class Splicer {
 public:
  explicit Splicer(uint16_t target) : target_(target), thread_([this] { splice(); }) {}
  ~Splicer() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // ends accept
    thread_.join();
  }
  Splicer(const Splicer&) = delete;
  Splicer& operator=(const Splicer&) = delete;
  uint16_t port() const { return bound_port(listening_.get()).value(); }

 private:
  struct Leg {
    UniqueFd dialler, listener;
  };
  static UniqueFd open(int (*use)(int, const sockaddr*, socklen_t), uint16_t port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = SocketAddress::parse("127.0.0.1", port).value();
    return use(fd.get(), address.raw(), address.bytes) == 0 ? std::move(fd) : UniqueFd();
  }
  static UniqueFd listen() {
    UniqueFd fd = open(::bind, 0);
    ::listen(fd.get(), 16);
    return fd;
  }
  /// Passes on what there is. Returns false at the end.
  static bool pass(int from, int to) {
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    return got > 0 && ::send(to, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL) == got;
  }
  static bool pass_all(int from, int to, size_t bytes) {
    for (char byte = 0; bytes > 0; --bytes) {
      if (::recv(from, &byte, 1, 0) != 1 || ::send(to, &byte, 1, MSG_NOSIGNAL) != 1) return false;
    }
    return true;
  }
  Leg meet() {
    Leg leg{UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)), open(::connect, target_)};
    const int up = leg.dialler.get(), down = leg.listener.get();
    static_cast<void>(pass_all(up, down, 1 + kHelloFirstBytes) && pass_all(down, up, kHelloSecondBytes) &&
                      pass_all(up, down, kHelloThirdBytes) && pass_all(down, up, 1));
    return leg;
  }
  void splice() {
    const Leg one = meet(), two = meet();
    for (pollfd ends[2] = {{one.dialler.get(), POLLIN, 0}, {two.listener.get(), POLLIN, 0}};;) {
      if (::poll(ends, 2, -1) <= 0) return;
      for (const int i : {0, 1}) {
        if (ends[i].revents != 0 && !pass(ends[i].fd, ends[1 - i].fd)) return;
      }
    }
  }

  const uint16_t target_;
  const UniqueFd listening_ = listen();
  std::thread thread_;
};

int some(int count) { return kThorough ? count : count / 5; }

}  // namespace

TEST_CASE("a data connection's bytes, said again, open no other") { replay_data(some(100)); }

TEST_CASE("a control connection's bytes, said again, open no other") { replay_control(some(50)); }

TEST_CASE("a data connection's bytes, said again thousands of times, open no other", "[.][long]") {
  replay_data(100'000);
}

TEST_CASE("a control connection's bytes, said again thousands of times, open no other", "[.][long]") {
  replay_control(20'000);
}

TEST_CASE("a listener takes neither its own proof, nor one for another key, nor noise for a dialler's") {
  TcpRanks others(2);
  std::string other = proof_for_other_key(others);
  REQUIRE(other.substr(0, 8) == third_with("").substr(0, 8));
  forge_data(some(50), [](const std::string& second) { return third_with(second.substr(second.size() - 32)); });
  forge_data(some(50), [&](const std::string&) { return other; });
  forge_data(some(50), [](const std::string& second) { return third_with(second.substr(8, 32)); });
}

TEST_CASE("a server that sends a rank's own bytes back to it is not taken for its peer") {
  TcpRanks ranks(2);
  Mirror mirror;
  const auto one = rank_one_again(ranks, mirror.port());
  const Abort abort;
  const auto set = one->channel_set(0, abort);
  const Status data = set->to(0, Deadline::after(300ms)).status();
  CHECK(data.code() == Code::kTimeout);
  CHECK(data.sentence().find("rank 1 cannot reach rank 0 (host host0, pid 1000)") == 0);
  const int peers[] = {0};
  const Status control = one->connect_control(peers, Deadline::after(300ms), [](int) { return Status(); });
  CHECK(control.code() == Code::kTimeout);
  CHECK(control.sentence().find("rank 1 cannot reach rank 0 (host host0, pid 1000)") == 0);
}

TEST_CASE("a peer that accepts connections and proves nothing is given up before the deadline") {
  TcpRanks ranks(2);
  UniqueFd silent = listen_on(SocketAddress::parse("127.0.0.1", 0).value()).value();  // the kernel accepts for it
  auto one = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(one.ok());
  TransportEpoch epoch = ranks.epoch(1);
  epoch.ranks[0].port = bound_port(silent.get()).value();
  epoch.unproven_limit = 100ms;
  REQUIRE(one.value()->configure(epoch).ok());
  const int peers[] = {0};
  const Deadline deadline = in_two_minutes();
  const Status lost = one.value()->connect_control(peers, deadline, [](int) { return Status(); });
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == -1);
  CHECK(lost.sentence().find("rank 1 cannot reach rank 0 (host host0, pid 1000)") == 0);
  CHECK_FALSE(deadline.passed());
}

TEST_CASE("a rank that waits for one that has given up is told why") {
  TcpRanks ranks(2);
  auto zero = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(zero.ok());
  REQUIRE(zero.value()->configure(ranks.epoch(0)).ok());
  const int peers[] = {1};
  const auto given_up = [](int rank) { return Status(Code::kSystem, "rank " + std::to_string(rank) + " is tired"); };
  CHECK(zero.value()->connect_control(peers, in_two_minutes(), given_up).sentence() == "rank 1 is tired");
}

TEST_CASE("a listener's answers, said again, are not taken for the peer's") {
  TcpRanks ranks(2);
  const Recording good = record_data(ranks);
  Mirror fake(good.down);
  const auto one = rank_one_again(ranks, fake.port());
  const Abort abort;
  const auto set = one->channel_set(0, abort);
  const Status refused = set->to(0, Deadline::after(3s)).status();
  CHECK(refused.code() == Code::kTimeout);
  CHECK(refused.sentence().find("does not prove the key") != std::string::npos);
}

TEST_CASE("a store that shows a certificate in place of the job's key is refused and told nothing") {
  CertificateServer impostor;
  StoreLocation where{"127.0.0.1", impostor.port(), "job", {}};
  where.key.present = true;
  where.key.bytes = test_key(1);
  const Status refused = StoreClient::connect(where, in_two_minutes()).status();
  CHECK(refused.code() == Code::kSystem);
  CHECK(refused.sentence() == "store at 127.0.0.1:" + std::to_string(impostor.port()) + ": " + kNoKey);
  CHECK(impostor.handshakes() == 1);
  CHECK(impostor.heard().empty());
}

TEST_CASE("a control peer that shows a certificate in place of the job's key is refused and told nothing") {
  TcpRanks ranks(2);
  CertificateServer impostor({.ignored_bytes = 1, .hello_from = 0});
  const auto one = rank_one_again(ranks, impostor.port());
  const int peers[] = {0};
  const Status refused = one->connect_control(peers, Deadline::after(3s), [](int) { return Status(); });
  CHECK(refused.code() == Code::kTimeout);
  CHECK(refused.sentence() == "rank 1 cannot reach rank 0 (host host0, pid 1000) (127.0.0.1:" +
                                  std::to_string(impostor.port()) + ": " + kNoKey + ")");
  CHECK(impostor.handshakes() > 0);
  CHECK(impostor.heard().empty());
}

TEST_CASE("a man in the middle of an encrypted data connection is refused and told nothing") {
  TcpRanks::Options options;
  options.encrypt_data = true;
  TcpRanks ranks(2, options);
  CertificateServer impostor({.ignored_bytes = 0, .hello_from = ranks.transport(0).port()});
  const auto one = rank_one_again(ranks, impostor.port());
  const Abort abort;
  const auto set = one->channel_set(0, abort);
  const auto channel = set->to(0, in_two_minutes());
  REQUIRE(channel.ok());  // the hello came from rank 0 itself
  const std::vector<std::byte> tensor(1000, std::byte{7});
  channel.value()->send(tensor);
  const Status refused = set->until([&] { return channel.value()->sent() == tensor.size(); }, Deadline::after(10s));
  CHECK(refused.code() == Code::kPeerLost);
  CHECK(refused.sentence() == "rank 1 lost its data connection to rank 0 (host host0, pid 1000) at 127.0.0.1:" +
                                  std::to_string(impostor.port()) + ": " + kNoKey);
  CHECK(impostor.handshakes() == 1);
  CHECK(impostor.heard().empty());
}

TEST_CASE("the hello of one encrypted data connection opens no TLS of another") {
  TcpRanks::Options options;
  options.encrypt_data = true;
  TcpRanks ranks(3, options);
  Splicer splicer(ranks.transport(0).port());
  const auto one = rank_again(ranks, 1, splicer.port()), two = rank_again(ranks, 2, splicer.port());
  const Abort abort;
  const auto from_one = one->channel_set(0, abort), from_two = two->channel_set(0, abort);
  const auto channel = from_one->to(0, in_two_minutes());
  REQUIRE(channel.ok());
  REQUIRE(from_two->to(0, in_two_minutes()).ok());

  // What comes to rank 0 on rank 2's connection is rank 1's.
  std::vector<std::byte> heard(1000);
  Status zero;
  std::thread listener([&] {
    const auto set = ranks.transport(0).channel_set(0, abort);
    const auto from = set->to(2, in_two_minutes());
    if (!from.ok()) return;
    from.value()->receive(heard);
    zero = set->until([&] { return from.value()->received() > 0; }, in_two_minutes());
  });
  const std::vector<std::byte> tensor(1000, std::byte{7});
  channel.value()->send(tensor);
  const Status refused = from_one->until([&] { return channel.value()->sent() > 0; }, in_two_minutes());
  listener.join();
  CHECK(refused.code() == Code::kPeerLost);
  CHECK(zero.code() == Code::kPeerLost);
  CHECK(zero.rank() == 2);
  CHECK(heard == std::vector<std::byte>(1000));
}
