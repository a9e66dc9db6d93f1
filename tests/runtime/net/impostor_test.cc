// Who does not know the key, on the ports of a rank that runs: replays, reflections, forgeries.
#include <catch2/catch.hpp>
#include <string>

#include "runtime/net/hello.h"
#include "runtime/net/tcp_transport.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mirror.h"
#include "tests/support/raw_connection.h"
#include "tests/support/scale.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;
using namespace rueda::test;
using namespace std::chrono_literals;

namespace {

Deadline in_two_minutes() { return Deadline::after(2min); }

/// Rank 1 once more, which finds rank 0 at another port.
std::unique_ptr<TcpTransport> rank_one_again(TcpRanks& ranks, uint16_t port) {
  auto transport = TcpTransport::listen({"127.0.0.1"});
  REQUIRE(transport.ok());
  TransportEpoch epoch = ranks.epoch(1);
  epoch.ranks[0].port = port;
  REQUIRE(transport.value()->configure(epoch).ok());
  return std::move(transport).value();
}

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
  REQUIRE(one->connect_control(peers, in_two_minutes()).ok());
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

/// Says who it is as rank 1 would, and as its proof what `forge` makes of the listener's answer.
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
  const std::string head("RDH3\1\0\0\0", 8);
  return head + std::string(proof);
}

/// The proof of who knows another key: what an accomplice with that key would take.
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
  const std::string other = proof_for_other_key(others);
  REQUIRE(other.substr(0, 8) == third_with("").substr(0, 8));
  forge_data(some(50), [](const std::string& second) { return third_with(second.substr(second.size() - 32)); });
  forge_data(some(50), [&](const std::string&) { return other; });
  forge_data(some(50), [](const std::string& second) { return third_with(second.substr(8, 32)); });
}

TEST_CASE("who sends a rank's own bytes back to it is not taken for its peer") {
  TcpRanks ranks(2);
  Mirror mirror;
  const auto one = rank_one_again(ranks, mirror.port());
  const Abort abort;
  const auto set = one->channel_set(0, abort);
  const Status data = set->to(0, Deadline::after(300ms)).status();
  CHECK(data.code() == Code::kTimeout);
  CHECK(data.sentence().find("rank 1 cannot reach rank 0 (host host0, pid 1000)") == 0);
  const int peers[] = {0};
  const Status control = one->connect_control(peers, Deadline::after(300ms));
  CHECK(control.code() == Code::kTimeout);
  CHECK(control.sentence().find("rank 1 cannot reach rank 0 (host host0, pid 1000)") == 0);
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
