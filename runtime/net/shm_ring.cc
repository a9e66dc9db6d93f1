// A byte ring in shared memory with one writer and one reader. It is made of cache lines that carry their own stamps:
//
//   | stamp | up to 56 bytes |   | stamp | up to 56 bytes |   ...       stamp = number of the line * 256 + its bytes
//
// Lines are numbered from 1 for the whole epoch, and line n lies at (n - 1) & (lines - 1), so a line of an earlier lap
// has another stamp than the one that is expected. A reader that waits for the next line looks at it alone. A short
// frame moves between the cores as one line, and no word says how far the writer is. One word says how far the reader
// is. The writer looks at it only if the ring would be full by its last look, and so the reader's stores to it stay in
// the reader's cache.
//
// An append of several lines stamps its first line last, so it appears at once.
#include "runtime/net/shm_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::core {
namespace {

constexpr int kCountBits = 8;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
static_assert(kTinyBytes <= kCountMask);

/// The stamp of the line after `before` lines.
uint64_t stamp_of(uint64_t before, size_t bytes) { return ((before + 1) << kCountBits) | bytes; }

TinyLine* lines_in(const Segment& segment, int ring) { return reinterpret_cast<TinyLine*>(segment.ring_bytes(ring)); }

}  // namespace

RingWriter::RingWriter(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index)
    : own_(std::move(own)),
      peer_(std::move(peer)),
      ring_(lines_in(*own_, peer_index)),
      consumed_(peer_->ring_words(own_index).consumed),
      lines_(own_->layout().ring_bytes / sizeof(TinyLine)),
      position_(consumed_.load()),
      known_consumed_(position_) {}

uint64_t RingWriter::free_lines() const {
  const uint64_t unread = position_ - consumed_.load();
  // A peer that writes nonsense into its word must not make us write over what it has not read.
  return unread > lines_ ? 0 : lines_ - unread;
}

/// Fills the line after `line` lines with the first bytes of `head` and `body`, without its stamp. Returns their count.
size_t RingWriter::fill(uint64_t line, std::span<const std::byte> head, std::span<const std::byte> body) {
  std::byte* const payload = ring_[line & (lines_ - 1)].payload;
  const size_t from_head = std::min(head.size(), kTinyBytes);
  if (from_head != 0) std::memcpy(payload, head.data(), from_head);
  const size_t from_body = std::min(body.size(), kTinyBytes - from_head);
  if (from_body != 0) std::memcpy(payload + from_head, body.data(), from_body);
  return from_head + from_body;
}

size_t RingWriter::append(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t bytes = head.size() + body.size();
  const uint64_t wanted = (bytes + kTinyBytes - 1) / kTinyBytes;
  if (position_ + wanted - known_consumed_ > lines_) known_consumed_ = position_ + free_lines() - lines_;
  const uint64_t count = std::min(wanted, known_consumed_ + lines_ - position_);
  if (count == 0) return 0;
  size_t taken = 0, first = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const size_t filled = fill(position_ + i, head, body);
    const size_t from_head = std::min(head.size(), filled);
    head = head.subspan(from_head);
    body = body.subspan(filled - from_head);
    taken += filled;
    if (i == 0) {
      first = filled;
    } else {
      ring_[(position_ + i) & (lines_ - 1)].stamp.store(stamp_of(position_ + i, filled), std::memory_order_release);
    }
  }
  ring_[position_ & (lines_ - 1)].stamp.store(stamp_of(position_, first));
  position_ += count;
  return taken;
}

RingReader::RingReader(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index)
    : own_(std::move(own)),
      peer_(std::move(peer)),
      ring_(lines_in(*peer_, own_index)),
      consumed_(own_->ring_words(peer_index).consumed),
      lines_(own_->layout().ring_bytes / sizeof(TinyLine)),
      position_(consumed_.load()),
      released_(position_) {}

/// Returns how many bytes of the present line can still be taken. A peer that writes nonsense into a stamp must not
/// make us read outside the line: nothing is there then.
size_t RingReader::unread() const {
  const uint64_t stamp = line(position_).stamp.load();
  const size_t count = stamp & kCountMask;
  if ((stamp >> kCountBits) != position_ + 1 || count > kTinyBytes) return 0;
  return count > taken_ ? count - taken_ : 0;
}

size_t RingReader::take(std::span<std::byte> bytes) {
  size_t given = 0;
  while (given < bytes.size()) {
    const size_t there = unread();
    const size_t count = std::min(there, bytes.size() - given);
    if (count == 0) break;
    std::memcpy(bytes.data() + given, line(position_).payload + taken_, count);
    given += count;
    taken_ += count;
    if (count < there) break;
    ++position_;
    taken_ = 0;
  }
  return given;
}

/// The writer fills lines in order, so the last line of the first half tells. It was read a lap ago and lies in this
/// core's cache unless the writer has come that far.
bool RingReader::release() {
  const uint64_t half = released_ + lines_ / 2;
  const bool half_full = (line(half - 1).stamp.load() >> kCountBits) == half;
  released_ = position_;
  consumed_.store(position_);
  return half_full;
}

}  // namespace rueda::core
