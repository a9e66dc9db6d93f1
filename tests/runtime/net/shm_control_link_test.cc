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

/// Of the word before each frame.
constexpr size_t kLengthBytes = 4;

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
  ends.high.segment->control().asleep.store(1);
  ends.low.link->send(patterned(100, 1), Urgency::kWithNextTurn);
  CHECK(ends.high.rings() == 0);
  CHECK(ends.high.link->readable());
  ends.high.segment->control().expecting.store(1);
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
  constexpr size_t kRing = 1024, kLines = kRing / sizeof(TinyLine);
  for (size_t taken = 1; taken < kLines / 2; ++taken) {
    INFO("the first call took " << taken << " of " << kLines << " lines");
    Ends ends(kRing);
    ends.low.link->send(patterned(taken * kTinyBytes - kLengthBytes, 1));
    ends.low.link->send(Frame(2 * kRing));
    ends.low.segment->control().asleep.store(1);
    RingReader first_call(ends.high.segment, ends.low.segment, 1, 0);
    std::vector<std::byte> bytes(taken * kTinyBytes);
    REQUIRE(first_call.take(bytes) == bytes.size());
    first_call.release();
    ends.high.open(ends.low);  // reads on behind it
    CHECK_FALSE(ends.high.link->receive().has_value());
    CHECK(ends.low.rings() == 1);
  }
}

TEST_CASE("a reader rings a sleeping writer for frames of half the ring or more, and for no shorter one") {
  constexpr size_t kRing = 512, kLines = kRing / sizeof(TinyLine);
  for (size_t bytes = 1; bytes + kLengthBytes <= kLines * kTinyBytes; ++bytes) {
    INFO("a frame of " << bytes << " bytes");
    Ends ends(kRing);
    ends.low.link->send(patterned(bytes, 1));
    ends.low.segment->control().asleep.store(1);
    CHECK(ends.high.link->receive() == patterned(bytes, 1));
    const size_t lines = (bytes + kLengthBytes + kTinyBytes - 1) / kTinyBytes;
    CHECK(ends.low.rings() == (lines >= kLines / 2 ? 1 : 0));
  }
}

TEST_CASE("frames of every length arrive whole, whatever line they begin in") {
  Ends ends(256);
  int seed = 0;
  for (size_t bytes = 1; bytes < 6 * kTinyBytes; ++bytes) {
    INFO("a frame of " << bytes << " bytes");
    const Frame frame = patterned(bytes, ++seed), short_frame = patterned(3, ++seed);
    ends.low.link->send(frame);
    ends.low.link->send(short_frame);
    std::vector<Frame> received;
    for (int looks = 0; looks < 100 && received.size() < 2; ++looks) {
      ends.low.link->flush();
      if (auto next = ends.high.link->receive()) received.push_back(*std::move(next));
    }
    CHECK(received == std::vector{frame, short_frame});
  }
}

TEST_CASE("a reader of part of a line takes the rest later, and a line counts as read with its last byte") {
  Ends ends(256);
  RingWriter writer(ends.low.segment, ends.high.segment, 0, 1);
  RingReader reader(ends.high.segment, ends.low.segment, 1, 0);
  const Frame sent = patterned(3 * kTinyBytes, 5);
  REQUIRE(writer.append(sent) == sent.size());
  std::vector<std::byte> got;
  for (const size_t piece : {size_t{10}, size_t{46}, size_t{57}, size_t{55}}) {
    std::vector<std::byte> bytes(piece);
    REQUIRE(reader.take(bytes) == piece);
    got.insert(got.end(), bytes.begin(), bytes.end());
    CHECK(reader.release() == (got.size() != sent.size()));  // in the end one line of four was left
    if (got.size() == 10) CHECK(ends.high.segment->ring_words(0).consumed.load() == 0);
    if (got.size() == 113) CHECK(ends.high.segment->ring_words(0).consumed.load() == 2);
  }
  CHECK(got == sent);
  CHECK(reader.empty());
  CHECK(ends.high.segment->ring_words(0).consumed.load() == 3);
}

TEST_CASE("a writer takes what fits, and looks at the reader once its ring is full") {
  Ends ends(256);
  RingWriter writer(ends.low.segment, ends.high.segment, 0, 1);
  RingReader reader(ends.high.segment, ends.low.segment, 1, 0);
  const Frame head = patterned(4, 1), body = patterned(300, 2);
  CHECK(writer.append(head, body) == 4 * kTinyBytes);
  CHECK_FALSE(writer.has_room());
  CHECK(writer.append(body) == 0);
  std::vector<std::byte> bytes(2 * kTinyBytes);
  REQUIRE(reader.take(bytes) == bytes.size());
  CHECK(writer.append(body) == 0);  // not given back yet
  reader.release();
  CHECK(writer.has_room());
  CHECK(writer.append(std::span(body).first(57)) == 57);
  CHECK_FALSE(writer.has_room());
}

TEST_CASE("nonsense in a peer's words never makes a reader or a writer leave its ring") {
  Ends ends(256);
  RingReader reader(ends.high.segment, ends.low.segment, 1, 0);
  RingWriter writer(ends.high.segment, ends.low.segment, 1, 0);
  auto* const lines = reinterpret_cast<TinyLine*>(ends.low.segment->ring_bytes(1));
  std::vector<std::byte> bytes(1000);
  for (const uint64_t stamp :
       {uint64_t{1} << 60, uint64_t{57} | 1 << 8, uint64_t{255} | 1 << 8, uint64_t{5} | 2 << 8}) {
    lines[0].stamp.store(stamp);
    CHECK(reader.empty());
    CHECK(reader.take(bytes) == 0);
  }
  lines[0].stamp.store(uint64_t{20} | 1 << 8);
  CHECK(reader.take(std::span(bytes).first(15)) == 15);
  lines[0].stamp.store(uint64_t{10} | 1 << 8);  // fewer than were taken
  CHECK(reader.take(bytes) == 0);
  for (const uint64_t consumed : {uint64_t{1} << 60, ~uint64_t{0}, uint64_t{1}}) {
    ends.low.segment->ring_words(1).consumed.store(consumed);
    CHECK(writer.append(bytes) <= 4 * kTinyBytes);
  }
}

}  // namespace
}  // namespace rueda::core
