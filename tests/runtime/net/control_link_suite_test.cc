// What every control link promises, asked of every implementation. Frame contents come from a formula over their number
// and their sender, so a lost, doubled or swapped frame shows.
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "runtime/net/control_link.h"
#include "tests/support/control_link_pairs.h"

namespace rueda::core {
namespace {

Frame numbered_frame(uint64_t number, int sender, size_t bytes) {
  Frame frame(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    frame[i] = static_cast<std::byte>((number * 31 + static_cast<uint64_t>(sender) * 101 + i * 7 + i / 251) & 0xff);
  }
  return frame;
}

/// The next frame at `to`, or nothing once its link has ended. One thread serves both ends, so it flushes the sender.
std::optional<Frame> next_frame(ControlLinkPair& pair, int to) {
  for (;;) {
    if (auto frame = pair.end(to).receive()) return frame;
    if (!pair.end(to).status().ok()) return pair.end(to).receive();
    pair.end(1 - to).flush();  // into the room that was made just now; a sleep before it would be for ever
    if (!pair.await(to)) FAIL("rank " << to << " was never woken");
  }
}

/// Waits until everything that `from` sent has left.
void flush_all(ControlLinkPair& pair, int from) {
  while (!pair.end(from).flush()) {
    if (!pair.await(from)) FAIL("rank " << from << " was never woken to flush");
  }
}

TEST_CASE("frames of every size arrive whole and in order, both ways") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  const size_t sizes[] = {1, 2, 251, 252, 253, 300, 70'000, 3'000'000, kMaxFrameBytes, 1};
  for (const int from : {0, 1}) {
    uint64_t number = 0;
    for (const size_t bytes : sizes) {
      const Urgency urgency = number % 2 == 0 ? Urgency::kRing : Urgency::kWithNextTurn;
      pair->end(from).send(numbered_frame(number++, from, bytes), urgency);
    }
    number = 0;
    for (const size_t bytes : sizes) {
      INFO("frame " << number << " of " << bytes << " bytes from rank " << from);
      const bool equal = next_frame(*pair, 1 - from) == numbered_frame(number++, from, bytes);
      CHECK(equal);
    }
  }
  CHECK_FALSE(pair->end(0).receive().has_value());
  CHECK_FALSE(pair->end(1).receive().has_value());
  CHECK(pair->end(0).status().ok());
  CHECK(pair->end(1).status().ok());
}

TEST_CASE("an empty frame never arrives, and the frames around it do") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  pair->end(0).send({});
  pair->end(0).send(numbered_frame(1, 0, 5));
  pair->end(0).send({});
  pair->end(0).send(numbered_frame(2, 0, 5));
  CHECK(next_frame(*pair, 1) == numbered_frame(1, 0, 5));
  CHECK(next_frame(*pair, 1) == numbered_frame(2, 0, 5));
  CHECK(pair->end(1).status().ok());
}

size_t mixed_length(uint64_t number, int sender) {
  const uint64_t mixed = (number * 2654435761u + static_cast<uint64_t>(sender) * 40503u) % 100'001;
  return 1 + static_cast<size_t>(number % 10 == 0 ? mixed : mixed % 300);
}

/// Sends `count` frames in bursts and receives as many, asleep whenever there is nothing to do. Returns the first
/// fault, or nothing.
std::string converse(ControlLinkPair& pair, int rank, uint64_t count) {
  ControlLink& link = pair.end(rank);
  uint64_t sent = 0, received = 0;
  const auto busy = [&] { return received < count || sent < count || !link.flush(); };
  while (busy()) {
    bool moved = false;
    for (int burst = 0; burst < 5 && sent < count; ++burst, ++sent, moved = true)
      link.send(numbered_frame(sent, rank, mixed_length(sent, rank)));
    link.flush();
    for (std::optional<Frame> frame; (frame = link.receive()); ++received, moved = true) {
      if (*frame != numbered_frame(received, 1 - rank, mixed_length(received, 1 - rank)))
        return "frame " + std::to_string(received) + " of rank " + std::to_string(1 - rank) + " is wrong";
    }
    if (!link.status().ok()) return link.status().sentence();
    if (!moved && busy() && !pair.await(rank))
      return "rank " + std::to_string(rank) + " slept for ever after " + std::to_string(received) + " frames";
  }
  return {};
}

TEST_CASE("two ranks that talk at once and sleep between bursts get every frame") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  constexpr uint64_t kFrames = 200;
  std::string fault_of_one;
  std::thread one([&] { fault_of_one = converse(*pair, 1, kFrames); });
  const std::string fault_of_zero = converse(*pair, 0, kFrames);
  one.join();
  CHECK(fault_of_zero == "");
  CHECK(fault_of_one == "");
}

TEST_CASE("a sender never blocks, however much its peer leaves unread, and flush ends true") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  constexpr uint64_t kFrames = 100;
  constexpr size_t kBytes = 100'000;
  for (uint64_t number = 0; number < kFrames; ++number) pair->end(0).send(numbered_frame(number, 0, kBytes));
  for (uint64_t number = 0; number < kFrames; ++number) {
    INFO("frame " << number);
    const bool equal = next_frame(*pair, 1) == numbered_frame(number, 0, kBytes);
    CHECK(equal);
  }
  flush_all(*pair, 0);
  CHECK(pair->end(0).flush());
}

TEST_CASE("a link is readable from the arrival of a frame until the last one is taken") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  CHECK_FALSE(pair->end(1).readable());
  CHECK_FALSE(pair->end(1).receive().has_value());
  pair->end(0).send(numbered_frame(1, 0, 10));
  pair->end(0).send(numbered_frame(2, 0, 10));
  while (!pair->end(1).readable()) REQUIRE(pair->await(1));
  CHECK(next_frame(*pair, 1) == numbered_frame(1, 0, 10));
  while (!pair->end(1).readable()) REQUIRE(pair->await(1));
  CHECK(pair->end(1).receive() == numbered_frame(2, 0, 10));
  CHECK_FALSE(pair->end(1).readable());
}

TEST_CASE("a closed side ends behind its last frame, and the other side goes on") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  pair->end(0).send(numbered_frame(1, 0, 700));
  pair->end(0).send(numbered_frame(2, 0, 1));
  pair->end(0).close_send();
  pair->end(0).close_send();
  pair->end(0).send(numbered_frame(3, 0, 10));
  CHECK(next_frame(*pair, 1) == numbered_frame(1, 0, 700));
  CHECK(next_frame(*pair, 1) == numbered_frame(2, 0, 1));
  CHECK_FALSE(next_frame(*pair, 1).has_value());
  const Status ended = pair->end(1).status();
  CHECK(ended.code() == Code::kShutDown);
  CHECK(ended.rank() == 0);
  CHECK(ended.sentence() == "rank 0 has ended its side of the control connection");
  CHECK_FALSE(pair->end(1).readable());
  pair->end(1).send(numbered_frame(4, 1, 300));
  CHECK(next_frame(*pair, 0) == numbered_frame(4, 1, 300));
  CHECK(pair->end(0).status().ok());
}

TEST_CASE("a frame over the limit does not leave, ends the sending side and names the limit") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  pair->end(0).send(numbered_frame(1, 0, 10));
  pair->end(0).send(Frame(kMaxFrameBytes + 1));
  pair->end(0).send(numbered_frame(2, 0, 10));
  const Status refused = pair->end(0).status();
  CHECK(refused.code() == Code::kSystem);
  CHECK(refused.rank() == 1);
  CHECK(refused.sentence() == "a control frame to rank 1 has 16777217 bytes; the limit is 16777216");
  CHECK(next_frame(*pair, 1) == numbered_frame(1, 0, 10));
  flush_all(*pair, 0);
  pair->end(1).send(numbered_frame(3, 1, 10));
  std::optional<Frame> answer;
  while (!(answer = pair->end(0).receive())) REQUIRE(pair->await(0));
  CHECK(answer == numbered_frame(3, 1, 10));
  CHECK_FALSE(pair->end(1).receive().has_value());
  CHECK(pair->end(1).status().ok());
}

TEST_CASE("a frame over the limit that comes breaks the link and names the rank and the limit") {
  const ControlLinkKind kind = GENERATE(from_range(control_link_kinds()));
  INFO(kind.name);
  const auto pair = kind.make();
  pair->forge(static_cast<uint32_t>(kMaxFrameBytes + 1));
  CHECK_FALSE(next_frame(*pair, 1).has_value());
  const Status broken = pair->end(1).status();
  CHECK(broken.code() == Code::kPeerLost);
  CHECK(broken.rank() == 0);
  CHECK(broken.sentence() == "rank 0 sent a control frame of 16777217 bytes; the limit is 16777216");
  CHECK_FALSE(pair->end(1).readable());
}

}  // namespace
}  // namespace rueda::core
