#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/net/segment.h"

namespace rueda::core {

/// The writing end of the byte ring from one local rank to another. The holder of the writing rank's baton uses it. One
/// writing end per pair and epoch; it shares ownership of both mappings.
class RingWriter {
 public:
  /// `own_index`, `peer_index`: local ranks.
  RingWriter(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index);
  /// Copies as much as fits of `head` and then `body`, which may be empty, behind what was appended before, and makes
  /// it readable; returns the bytes taken. The reader sees nothing of it before all that was taken, and the last store
  /// is sequentially consistent. The caller rings the reader (ControlWords::asleep, eventfd) afterwards.
  size_t append(std::span<const std::byte> head, std::span<const std::byte> body = {});
  /// Returns true if at least one byte fits. Looks, sequentially consistently, at how far the reader is.
  bool has_room() const { return free_lines() > 0; }

 private:
  uint64_t free_lines() const;
  size_t fill(uint64_t line, std::span<const std::byte> head, std::span<const std::byte> body);

  std::shared_ptr<Segment> own_, peer_;
  TinyLine* ring_;                         ///< in `own_`
  const std::atomic<uint64_t>& consumed_;  ///< in `peer_`
  uint64_t lines_;                         ///< a power of two
  uint64_t position_;                      ///< lines written since the epoch began
  uint64_t known_consumed_;                ///< the last look at `consumed_`
};

/// The reading end. The holder of the reading rank's baton uses it. One reading end per pair and epoch.
class RingReader {
 public:
  RingReader(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index);
  /// Copies what is there, at most `bytes.size()`; returns the bytes given.
  size_t take(std::span<std::byte> bytes);
  /// Returns true if nothing can be taken. Costs one load.
  bool empty() const { return unread() == 0; }
  /// Gives the space of the lines that were taken to their end back to the writer, with one sequentially consistent
  /// store. Returns true if at least half of the ring was occupied before it, the taken lines included.
  bool release();

 private:
  const TinyLine& line(uint64_t number) const { return ring_[number & (lines_ - 1)]; }
  size_t unread() const;

  std::shared_ptr<Segment> own_, peer_;
  const TinyLine* ring_;             ///< in `peer_`
  std::atomic<uint64_t>& consumed_;  ///< in `own_`
  uint64_t lines_;                   ///< a power of two
  uint64_t position_;                ///< lines taken to their end since the epoch began
  uint64_t released_;                ///< what `consumed_` holds
  size_t taken_ = 0;                 ///< bytes of the line at `position_`
};

}  // namespace rueda::core
