#include "runtime/net/shm_control_link.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SegmentLayout layout_with_ring(size_t ring_bytes) {
  SegmentLayout layout;
  layout.local_size = 2;
  layout.rings = 2;
  layout.lanes = 1;
  layout.slots = 1;
  layout.slot_bytes = 4096;
  layout.ring_bytes = ring_bytes;
  return layout;
}

/// One of two ranks: its segment, its doorbell, and how it sleeps.
struct End {
  End(size_t ring_bytes, int rank)
      : segment(Segment::create(layout_with_ring(ring_bytes), 1, rank).value()),
        doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  uint64_t rings() {
    eventfd_t count = 0;
    ::eventfd_read(doorbell.get(), &count);
    return count;
  }
  /// As the engine puts the baton down. False if nobody rang within a minute although something should have come.
  bool sleep() {
    segment->control().asleep.store(1);
    bool rung = true;
    if (!link->readable()) {
      pollfd watched{doorbell.get(), POLLIN, 0};
      rung = ::poll(&watched, 1, static_cast<int>(milliseconds(seconds(60)).count())) == 1;
    }
    segment->control().asleep.store(0);
    rings();
    return rung;
  }

  std::shared_ptr<Segment> segment;
  UniqueFd doorbell;
  std::unique_ptr<ShmControlLink> link;
};

struct Ends {
  explicit Ends(size_t ring_bytes) : low(ring_bytes, 0), high(ring_bytes, 1) {
    low.link = std::make_unique<ShmControlLink>(LocalPair{low.segment, high.segment, 0, 1, 1, high.doorbell.get()});
    high.link = std::make_unique<ShmControlLink>(LocalPair{high.segment, low.segment, 1, 0, 0, low.doorbell.get()});
  }
  End low;
  End high;
};

/// Frame `number` of the rank with this seed: length and every byte from a formula.
size_t length_of(uint64_t number, uint64_t seed) {
  const uint64_t mixed = (number * 2654435761u + seed * 40503u) % 100001;
  if (number % 10 == 0) return static_cast<size_t>(mixed);  // up to 100000
  return static_cast<size_t>(mixed % 300);                  // 0 included
}

Frame frame_of(uint64_t number, uint64_t seed) {
  Frame frame(length_of(number, seed));
  for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>((number + seed + i * 7) & 0xff);
  return frame;
}

/// Sends `count` frames and receives as many, sleeping whenever there is nothing to do. The first fault, or nothing.
std::string converse(End& end, uint64_t count, uint64_t own_seed, uint64_t peer_seed) {
  uint64_t sent = 0;
  uint64_t received = 0;
  const auto busy = [&] { return received < count || sent < count || !end.link->flush(); };
  while (busy()) {
    bool moved = false;
    for (int burst = 0; burst < 5 && sent < count; ++burst, moved = true) end.link->send(frame_of(sent++, own_seed));
    end.link->flush();
    while (const auto frame = end.link->receive()) {
      if (*frame != frame_of(received, peer_seed)) return "frame " + std::to_string(received) + " is wrong";
      ++received;
      moved = true;
    }
    if (!end.link->status().ok()) return end.link->status().sentence();
    if (!moved && busy() && !end.sleep()) return "nobody rang after " + std::to_string(received) + " frames";
  }
  return {};
}

TEST_CASE("frames of any length cross a small ring both ways at once, whole and in order") {
  const size_t ring_bytes = GENERATE(size_t{256}, size_t{16} * 1024);
  constexpr uint64_t kFrames = 200;
  Ends ends(ring_bytes);
  std::string low_fault;
  std::string high_fault;
  std::thread high([&] { high_fault = converse(ends.high, kFrames, 2, 1); });
  low_fault = converse(ends.low, kFrames, 1, 2);
  high.join();
  CHECK(low_fault.empty());
  CHECK(high_fault.empty());
}

TEST_CASE("an awake peer is not rung, a sleeping one is") {
  Ends ends(1024);
  const Frame frame = frame_of(1, 1);
  ends.low.link->send(frame);
  CHECK(ends.high.rings() == 0);
  CHECK(ends.high.link->readable());
  CHECK(ends.high.link->receive() == frame);
  CHECK_FALSE(ends.high.link->readable());
  ends.high.segment->control().asleep.store(1);
  ends.low.link->send(frame);
  CHECK(ends.high.rings() == 1);
  CHECK(ends.high.link->receive() == frame);
}

TEST_CASE("a frame that can wait for the next turn rings only a peer that expects something") {
  Ends ends(1024);
  ends.high.segment->control().asleep.store(kRestingIdle);
  ends.low.link->send(frame_of(1, 1), Urgency::kWithNextTurn);
  CHECK(ends.high.rings() == 0);
  CHECK(ends.high.link->readable());
  ends.high.segment->control().asleep.store(kRestingExpecting);
  ends.low.link->send(frame_of(2, 1), Urgency::kWithNextTurn);
  CHECK(ends.high.rings() == 1);
  CHECK(ends.high.link->receive() == frame_of(1, 1));
  CHECK(ends.high.link->receive() == frame_of(2, 1));
}

TEST_CASE("a reader rings a writer that sleeps because its ring is full, and only such a one") {
  Ends ends(256);
  const Frame long_frame(1000, std::byte{1});
  ends.low.link->send(long_frame);
  CHECK_FALSE(ends.low.link->flush());
  CHECK_FALSE(ends.low.link->readable());
  ends.low.segment->control().asleep.store(1);
  CHECK_FALSE(ends.high.link->receive().has_value());
  CHECK(ends.low.rings() == 1);
  CHECK(ends.low.link->readable());
  ends.low.segment->control().asleep.store(0);
  while (!ends.low.link->flush()) CHECK_FALSE(ends.high.link->receive().has_value());
  CHECK(ends.high.link->receive() == long_frame);

  ends.low.rings();
  ends.low.link->send(frame_of(1, 1));
  ends.low.segment->control().asleep.store(1);
  CHECK(ends.high.link->receive().has_value());
  CHECK(ends.low.rings() == (length_of(1, 1) + 4 >= 128 ? 1 : 0));
}

TEST_CASE("a closed link gives all frames sent before, then says who closed") {
  Ends ends(256);
  const Frame frame(700, std::byte{3});
  ends.low.link->send(frame);
  ends.low.link->close_send();
  std::optional<Frame> received;
  while (!received) {
    ends.low.link->flush();
    received = ends.high.link->receive();
  }
  CHECK(received == frame);
  ends.low.link->flush();
  CHECK_FALSE(ends.high.link->receive().has_value());
  CHECK(ends.high.link->status().code() == Code::kShutDown);
  CHECK(ends.high.link->status().rank() == 0);
  CHECK_FALSE(ends.high.link->readable());
  ends.high.link->send(frame_of(1, 1));
  CHECK(ends.low.link->receive() == frame_of(1, 1));
}

TEST_CASE("a length over the limit breaks the link and names the rank and the limit") {
  Ends ends(1024);
  RingWriter forger(ends.low.segment, ends.high.segment, 0, 1);
  const auto length = static_cast<uint32_t>(kMaxFrameBytes + 1);
  forger.append(std::as_bytes(std::span(&length, 1)));
  forger.publish();
  CHECK_FALSE(ends.high.link->receive().has_value());
  CHECK(ends.high.link->status().code() == Code::kPeerLost);
  CHECK(ends.high.link->status().sentence() == "rank 0 sent a control frame of 16777217 bytes, the limit is 16777216");
  CHECK_FALSE(ends.high.link->readable());
}

TEST_CASE("nonsense in a peer's words never makes a reader or a writer leave its ring") {
  Ends ends(256);
  RingReader reader(ends.high.segment, ends.low.segment, 1, 0);
  RingWriter writer(ends.high.segment, ends.low.segment, 1, 0);
  ends.low.segment->ring_words(1).written.store(uint64_t{1} << 60);
  CHECK(reader.unread_bytes() == 256);
  ends.low.segment->ring_words(1).consumed.store(uint64_t{1} << 60);
  CHECK(writer.free_bytes() == 0);
}

}  // namespace
}  // namespace rueda::core
