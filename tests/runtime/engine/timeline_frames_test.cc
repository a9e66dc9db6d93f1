#include "runtime/engine/timeline_frames.h"

#include <catch2/catch.hpp>

#include "runtime/engine/clock_shift.h"

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

constexpr SteadyClock::time_point kAsked{1000s};

/// Every proper prefix of `frame` is refused, and names the rank.
template <typename Decode>
void require_whole(std::span<const std::byte> frame, Decode&& decode) {
  for (size_t length = 0; length < frame.size(); ++length) {
    const auto decoded = decode(frame.first(length), 3);
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().code() == Code::kPeerLost);
    CHECK(decoded.status().rank() == 3);
  }
}

}  // namespace

TEST_CASE("a timeline's frames travel unchanged, and what is cut off is refused with the rank") {
  const auto change = encode(TimelineSwitch{true, true});
  CHECK(decode_timeline_switch(change, 3).value().record);
  CHECK(decode_timeline_switch(change, 3).value().mark_rounds);
  CHECK_FALSE(decode_timeline_switch(encode(TimelineSwitch{}), 3).value().record);
  require_whole(change, decode_timeline_switch);
  const auto ask = encode_clock_ask(kAsked);
  CHECK(decode_clock_ask(ask, 3).value() == kAsked);
  require_whole(ask, decode_clock_ask);
  const auto answer = encode(ClockAnswer{kAsked, kAsked + 5s});
  CHECK(decode_clock_answer(answer, 3).value().answered == kAsked + 5s);
  require_whole(answer, decode_clock_answer);
  TimelinePiece sent;
  sent.last = true;
  sent.shift = -7ms;
  sent.records = {std::byte{1}, std::byte{2}};
  const TimelinePiece piece = decode_timeline_piece(encode(sent), 3).value();
  CHECK(piece.last);
  CHECK(piece.shift == -7ms);
  CHECK(piece.records == sent.records);
  const std::vector<std::byte> bytes = encode(sent);
  require_whole(std::span(bytes).first(9), decode_timeline_piece);
  for (const auto impossible : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::min()}) {
    sent.shift = impossible;
    CHECK_THAT(decode_timeline_piece(encode(sent), 3).status().sentence(), Contains("rank 3 sent a piece of timeline"));
    const SteadyClock::time_point moment{impossible};
    CHECK_FALSE(decode_clock_ask(encode_clock_ask(moment), 3).ok());
    CHECK_FALSE(decode_clock_answer(encode(ClockAnswer{kAsked, moment}), 3).ok());
  }
  std::vector<std::byte> unknown = encode(TimelineSwitch{});
  unknown[0] = std::byte{0x80};
  CHECK_THAT(decode_timeline_switch(unknown, 3).status().sentence(), Contains("rank 3 sent a timeline switch"));
}

TEST_CASE("a clock's shift is that of the quickest answer, off by half its round trip at most") {
  // Rank 0's clock is 100 s ahead.
  ClockShift clock;
  CHECK_FALSE(clock.shift());
  clock.answer(kAsked, kAsked + 100s + 8ms, kAsked + 10ms);  // slow on the way there
  CHECK(*clock.shift() == 100s + 3ms);
  clock.answer(kAsked + 1s, kAsked + 101s + 50us, kAsked + 1s + 100us);
  CHECK(*clock.shift() == 100s);
  clock.answer(kAsked + 2s, kAsked + 102s + 9ms, kAsked + 2s + 9ms);  // slower: does not count
  CHECK(*clock.shift() == 100s);
  clock.answer(kAsked + 3s, kAsked, kAsked);  // from before it was asked
  CHECK(*clock.shift() == 100s);
}

TEST_CASE("an old measurement of a clock gives way to newer ones, since clocks drift") {
  ClockShift clock;
  clock.answer(kAsked, kAsked + 100s + 50us, kAsked + 100us);
  int slower = 0;
  while (*clock.shift() == 100s && slower < 100) {
    ++slower;
    clock.answer(kAsked, kAsked + 105s + 100us, kAsked + 200us);
  }
  CHECK(*clock.shift() == 105s);
  CHECK(slower < 20);
}

}  // namespace rueda::core
