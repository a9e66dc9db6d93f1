#include "runtime/net/hello.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>

namespace rueda::core {
namespace {

constexpr int kDialler = 2;
constexpr int kListener = 1;

HelloScope scope_of(int rank) {
  HelloScope scope{.job = "job", .epoch = 7, .rank = rank, .size = 4, .key = {}};
  for (size_t i = 0; i < scope.key.size(); ++i) scope.key[i] = static_cast<uint8_t>(3 * i + 1);
  return scope;
}

/// What happens to each message on its way.
struct Wire {
  std::function<void(HelloFirst&)> first = [](HelloFirst&) {};
  std::function<void(HelloSecond&)> second = [](HelloSecond&) {};
  std::function<void(HelloThird&)> third = [](HelloThird&) {};
};

/// One exchange. The first refusal, from whichever side.
Status exchange(HelloScope dialling, HelloScope listening, const Wire& wire = {}) {
  HelloDialler dialler(std::move(dialling), kListener, HelloPurpose::kData, 5);
  HelloListener listener(std::move(listening));
  auto first = dialler.first();
  if (!first.ok()) return first.status();
  wire.first(first.value());
  auto second = listener.on_first(first.value());
  if (!second.ok()) return second.status();
  wire.second(second.value());
  auto third = dialler.on_second(second.value());
  if (!third.ok()) return third.status();
  wire.third(third.value());
  return listener.on_third(third.value());
}

template <typename Message>
void flip(Message& message, size_t bit) {
  message[bit / 8] ^= std::byte{1} << (bit % 8);
}

TEST_CASE("two ranks with one key prove it to each other and agree on the route") {
  HelloDialler dialler(scope_of(kDialler), kListener, HelloPurpose::kControl, 9);
  HelloListener listener(scope_of(kListener));
  const auto second = listener.on_first(dialler.first().value());
  REQUIRE(second.ok());
  const auto third = dialler.on_second(second.value());
  REQUIRE(third.ok());
  REQUIRE(listener.on_third(third.value()).ok());
  CHECK(listener.route().dialler == kDialler);
  CHECK(listener.route().listener == kListener);
  CHECK(listener.route().purpose == HelloPurpose::kControl);
  CHECK(listener.route().number == 9);
}

TEST_CASE("ranks without a key go through the same exchange") {
  auto dialling = scope_of(kDialler);
  auto listening = scope_of(kListener);
  dialling.key = listening.key = {};
  CHECK(exchange(dialling, listening).ok());
}

TEST_CASE("a wrong key is refused by the dialler, and by the listener where the dialler would not look") {
  auto dialling = scope_of(kDialler);
  dialling.key[31] ^= 1;
  const auto refusal = exchange(dialling, scope_of(kListener));
  CHECK(refusal.code() == Code::kSystem);
  CHECK(refusal.rank() == kListener);

  // A stranger that has seen an honest proof for its own key, made with the listener's nonce.
  HelloDialler stranger(dialling, kListener, HelloPurpose::kData, 5);
  HelloListener listener(scope_of(kListener));
  const auto second = listener.on_first(stranger.first().value());
  REQUIRE(second.ok());
  CHECK_FALSE(stranger.on_second(second.value()).ok());
  auto own_key = scope_of(kListener);
  own_key.key = dialling.key;
  HelloListener accomplice(own_key);
  HelloDialler again(dialling, kListener, HelloPurpose::kData, 5);
  const auto forged = again.on_second(accomplice.on_first(again.first().value()).value());
  REQUIRE(forged.ok());
  CHECK(listener.on_third(forged.value()).rank() == kDialler);
}

TEST_CASE("another job, epoch, listener or a rank outside the job is refused with a sentence") {
  auto dialling = scope_of(kDialler);
  SECTION("job") { dialling.job = "jobs"; }
  SECTION("epoch") { dialling.epoch = 8; }
  SECTION("own rank") { dialling.rank = kListener; }
  SECTION("negative rank") { dialling.rank = -1; }
  SECTION("rank beyond the size") { dialling.rank = 4; }
  const auto refusal = exchange(dialling, scope_of(kListener));
  CHECK(refusal.code() == Code::kSystem);
  CHECK_FALSE(refusal.sentence().empty());
}

TEST_CASE("a proof is good for the TLS connection that carries it, and for no other") {
  ChannelBinding one{}, other{};
  one[0] = std::byte{1};
  other[31] = std::byte{1};
  auto dialling = scope_of(kDialler);
  auto listening = scope_of(kListener);
  dialling.binding = one;
  listening.binding = one;
  CHECK(exchange(dialling, listening).ok());
  listening.binding = GENERATE_COPY(other, ChannelBinding{});  // carried on to another connection, or to a plain one
  const auto refusal = exchange(dialling, listening);
  CHECK(refusal.code() == Code::kSystem);
  CHECK(refusal.sentence() == "hello: rank 1 does not prove the key of job \"job\"");
}

TEST_CASE("both ends of an exchange derive one key for TLS, and no two exchanges the same") {
  const auto derive = [] {
    HelloDialler dialler(scope_of(kDialler), kListener, HelloPurpose::kData, 5);
    HelloListener listener(scope_of(kListener));
    const auto second = listener.on_first(dialler.first().value());
    REQUIRE(second.ok());
    REQUIRE(listener.on_third(dialler.on_second(second.value()).value()).ok());
    CHECK(dialler.stream_key().value() == listener.stream_key().value());
    return dialler.stream_key().value();
  };
  const auto key = derive();
  CHECK_FALSE(key == derive());
  CHECK_FALSE(key == scope_of(kDialler).key);
}

TEST_CASE("a connection that reached another rank is refused") {
  const auto refusal = exchange(scope_of(kDialler), scope_of(3));
  CHECK(refusal.sentence() == "hello: rank 2 wants rank 1, this is rank 3");
}

TEST_CASE("every flipped bit of every message is refused") {
  for (size_t bit = 0; bit < 8 * kHelloFirstBytes; ++bit) {
    INFO("first, bit " << bit);
    REQUIRE_FALSE(
        exchange(scope_of(kDialler), scope_of(kListener), {.first = [bit](HelloFirst& message) { flip(message, bit); }})
            .ok());
  }
  for (size_t bit = 0; bit < 8 * kHelloSecondBytes; ++bit) {
    INFO("second, bit " << bit);
    REQUIRE_FALSE(exchange(scope_of(kDialler), scope_of(kListener),
                           {.second = [bit](HelloSecond& message) { flip(message, bit); }})
                      .ok());
  }
  for (size_t bit = 0; bit < 8 * kHelloThirdBytes; ++bit) {
    INFO("third, bit " << bit);
    REQUIRE_FALSE(
        exchange(scope_of(kDialler), scope_of(kListener), {.third = [bit](HelloThird& message) { flip(message, bit); }})
            .ok());
  }
}

TEST_CASE("messages of an earlier exchange are refused by both sides") {
  HelloFirst old_first{};
  HelloSecond old_second{};
  HelloThird old_third{};
  REQUIRE(exchange(scope_of(kDialler), scope_of(kListener),
                   {.first = [&](HelloFirst& message) { old_first = message; },
                    .second = [&](HelloSecond& message) { old_second = message; },
                    .third = [&](HelloThird& message) { old_third = message; }})
              .ok());

  HelloListener listener(scope_of(kListener));
  REQUIRE(listener.on_first(old_first).ok());
  CHECK_FALSE(listener.on_third(old_third).ok());

  HelloDialler dialler(scope_of(kDialler), kListener, HelloPurpose::kData, 5);
  REQUIRE(dialler.first().ok());
  CHECK_FALSE(dialler.on_second(old_second).ok());
}

/// How many of `count` exchanges come through, in each of which a side without the key replays, reflects or guesses.
int accepted_of(int count) {
  HelloFirst old_first{};
  HelloThird old_third{};
  REQUIRE(exchange(scope_of(kDialler), scope_of(kListener),
                   {.first = [&](HelloFirst& message) { old_first = message; },
                    .third = [&](HelloThird& message) { old_third = message; }})
              .ok());
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    HelloListener listener(scope_of(kListener));
    const auto second = listener.on_first(old_first);
    REQUIRE(second.ok());
    HelloThird third = old_third;                                                                  // replayed
    if (i % 3 == 1) std::copy(second.value().end() - 32, second.value().end(), third.end() - 32);  // reflected
    if (i % 3 == 2) std::copy_n(second.value().begin() + 8, 32, third.end() - 32);                 // a guess
    if (listener.on_third(third).ok()) ++accepted;
  }
  return accepted;
}

TEST_CASE("of a thousand replays, reflections and guesses none is accepted") { CHECK(accepted_of(1000) == 0); }

TEST_CASE("of a million replays, reflections and guesses none is accepted", "[.][long]") {
  CHECK(accepted_of(1'000'000) == 0);
}

TEST_CASE("a proof sent back to its maker proves nothing") {
  // The listener's own MAC, in the place of the dialler's.
  HelloDialler dialler(scope_of(kDialler), kListener, HelloPurpose::kData, 5);
  HelloListener listener(scope_of(kListener));
  const auto second = listener.on_first(dialler.first().value());
  REQUIRE(second.ok());
  const auto honest = dialler.on_second(second.value());
  REQUIRE(honest.ok());
  HelloThird reflected = honest.value();
  std::copy(second.value().end() - 32, second.value().end(), reflected.end() - 32);
  CHECK_FALSE(listener.on_third(reflected).ok());
}

TEST_CASE("a proof for one channel does not open another") {
  HelloListener listener(scope_of(kListener));
  HelloDialler dialler(scope_of(kDialler), kListener, HelloPurpose::kData, 5);
  auto first = dialler.first();
  REQUIRE(first.ok());
  HelloFirst other = first.value();
  other[28] = std::byte{6};
  const auto second = listener.on_first(other);
  REQUIRE(second.ok());
  CHECK_FALSE(dialler.on_second(second.value()).ok());
}

}  // namespace
}  // namespace rueda::core
