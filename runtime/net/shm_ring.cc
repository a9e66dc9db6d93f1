// A byte ring in shared memory with one writer and one reader.
//
//              consumed (the reader's word)        written (the writer's word)
//   ... read      │ unread ...                        │ free ...
//   positions count bytes since the epoch began; position & (capacity - 1) is the offset, so a capacity is a power of
//   two
//
// Each side keeps its own position and publishes it with one store, so a frame of several appends appears at once.
#include "runtime/net/shm_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::core {
namespace {

/// Copies between a ring and a span, around the ring's end if need be; `position` counts bytes since the epoch began.
void copy_in(std::byte* ring, size_t capacity, uint64_t position, std::span<const std::byte> bytes) {
  const size_t offset = static_cast<size_t>(position) & (capacity - 1);
  const size_t first = std::min(bytes.size(), capacity - offset);
  std::memcpy(ring + offset, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(ring, bytes.data() + first, bytes.size() - first);
}

void copy_out(const std::byte* ring, size_t capacity, uint64_t position, std::span<std::byte> bytes) {
  const size_t offset = static_cast<size_t>(position) & (capacity - 1);
  const size_t first = std::min(bytes.size(), capacity - offset);
  std::memcpy(bytes.data(), ring + offset, first);
  if (first < bytes.size()) std::memcpy(bytes.data() + first, ring, bytes.size() - first);
}

}  // namespace

RingWriter::RingWriter(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index)
    : own_(std::move(own)),
      peer_(std::move(peer)),
      written_(own_->ring_words(peer_index).written),
      consumed_(peer_->ring_words(own_index).consumed),
      bytes_(own_->ring_bytes(peer_index)),
      capacity_(own_->layout().ring_bytes),
      position_(written_.load()) {}

size_t RingWriter::free_bytes() const {
  const uint64_t unread = position_ - consumed_.load();
  // A peer that writes nonsense into its word must not make us write outside the ring.
  return unread > capacity_ ? 0 : capacity_ - static_cast<size_t>(unread);
}

size_t RingWriter::append(std::span<const std::byte> bytes) {
  const size_t count = std::min(bytes.size(), free_bytes());
  if (count == 0) return 0;
  copy_in(bytes_, capacity_, position_, bytes.first(count));
  position_ += count;
  return count;
}

RingReader::RingReader(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index)
    : own_(std::move(own)),
      peer_(std::move(peer)),
      written_(peer_->ring_words(own_index).written),
      consumed_(own_->ring_words(peer_index).consumed),
      bytes_(peer_->ring_bytes(own_index)),
      capacity_(own_->layout().ring_bytes),
      position_(consumed_.load()) {}

size_t RingReader::unread_bytes() const {
  // A peer that writes nonsense into its word must not make us read outside the ring.
  return static_cast<size_t>(std::min<uint64_t>(written_.load() - position_, capacity_));
}

size_t RingReader::occupied_bytes() const {
  const uint64_t released = consumed_.load(std::memory_order_relaxed);  // our own word
  return static_cast<size_t>(std::min<uint64_t>(written_.load() - released, capacity_));
}

size_t RingReader::take(std::span<std::byte> bytes) {
  const size_t count = std::min(bytes.size(), unread_bytes());
  if (count == 0) return 0;
  copy_out(bytes_, capacity_, position_, bytes.first(count));
  position_ += count;
  return count;
}

}  // namespace rueda::core
