// What is shared memory's own about its control links: whom they ring, and that nonsense in a peer's words is harmless.
// The rest is in control_link_suite_test.cc.
#include "runtime/net/shm_control_link.h"

#include <sys/eventfd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::core {
namespace {

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

/// One of two ranks: its segment, its doorbell and its end of the link.
struct End {
  End(size_t ring_bytes, int rank)
      : local_rank(rank),
        segment(Segment::create(layout_with_ring(ring_bytes), 1, rank).value()),
        doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  uint64_t rings() {
    eventfd_t count = 0;
    ::eventfd_read(doorbell.get(), &count);
    return count;
  }

  /// Makes the link to the other end, from where the rings are now.
  void open(const End& peer) {
    link = std::make_unique<ShmControlLink>(
        LocalPair{segment, peer.segment, local_rank, peer.local_rank, peer.local_rank, peer.doorbell.get()});
  }

  int local_rank;
  std::shared_ptr<Segment> segment;
  UniqueFd doorbell;
  std::unique_ptr<ShmControlLink> link;
};

struct Ends {
  explicit Ends(size_t ring_bytes) : low(ring_bytes, 0), high(ring_bytes, 1) {
    low.open(high);
    high.open(low);
  }
  End low;
  End high;
};

Frame patterned(size_t bytes, int seed) {
  Frame frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<std::byte>((static_cast<size_t>(seed) + i * 7) & 0xff);
  return frame;
}

TEST_CASE("an awake peer is not rung, a sleeping one is") {
  Ends ends(1024);
  const Frame frame = patterned(100, 1);
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
  ends.low.link->send(patterned(100, 1), Urgency::kWithNextTurn);
  CHECK(ends.high.rings() == 0);
  CHECK(ends.high.link->readable());
  ends.high.segment->control().asleep.store(kRestingExpecting);
  ends.low.link->send(patterned(100, 2), Urgency::kWithNextTurn);
  CHECK(ends.high.rings() == 1);
  CHECK(ends.high.link->receive() == patterned(100, 1));
  CHECK(ends.high.link->receive() == patterned(100, 2));
}

TEST_CASE("a reader rings a writer that sleeps because its ring is full") {
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
}

// The race that the reader's rule must survive:
//
//   reader:  takes a frame, sees room left, does not ring |                        | gives the frame's space back
//   writer:                                               | fills the ring, sleeps |
//
// From then on only the reader's next call can wake the writer, and it must, whatever the length of that frame. A frame
// of half the ring or more is no such case: the call that takes it rings by itself (next test).
TEST_CASE("a writer that fills its ring behind a reader's look is rung by the reader's next call") {
  constexpr size_t kRing = 256, kLength = 4;
  for (size_t taken = kLength + 1; taken < kRing / 2; ++taken) {
    INFO("the first call took " << taken << " of " << kRing << " bytes");
    Ends ends(kRing);
    ends.low.link->send(patterned(taken - kLength, 1));
    ends.low.link->send(Frame(2 * kRing));
    ends.low.segment->control().asleep.store(1);
    RingReader first_call(ends.high.segment, ends.low.segment, 1, 0);
    std::vector<std::byte> bytes(taken);
    REQUIRE(first_call.take(bytes) == taken);
    first_call.release();
    ends.high.open(ends.low);  // reads on behind it
    CHECK_FALSE(ends.high.link->receive().has_value());
    CHECK(ends.low.rings() == 1);
  }
}

TEST_CASE("a reader rings a sleeping writer for frames of half the ring or more, and for no shorter one") {
  constexpr size_t kRing = 256, kLength = 4;
  for (size_t bytes = 1; bytes + kLength <= kRing; ++bytes) {
    INFO("a frame of " << bytes << " bytes");
    Ends ends(kRing);
    ends.low.link->send(patterned(bytes, 1));
    ends.low.segment->control().asleep.store(1);
    CHECK(ends.high.link->receive() == patterned(bytes, 1));
    CHECK(ends.low.rings() == (bytes + kLength >= kRing / 2 ? 1 : 0));
  }
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
