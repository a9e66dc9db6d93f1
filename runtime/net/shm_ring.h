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
  /// Copies as much as fits behind what was appended before; returns the bytes taken. `publish` makes them readable.
  size_t append(std::span<const std::byte> bytes);
  /// Makes what was appended readable, with one sequentially consistent store. The caller rings the reader
  /// (ControlWords::asleep, eventfd) afterwards.
  void publish() { written_.store(position_); }
  /// Looks, sequentially consistently, at how far the reader is.
  size_t free_bytes() const;
  size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<Segment> own_, peer_;
  std::atomic<uint64_t>& written_;         ///< in `own_`
  const std::atomic<uint64_t>& consumed_;  ///< in `peer_`
  std::byte* bytes_;
  size_t capacity_;
  uint64_t position_;  ///< what `written_` holds after the next `publish`
};

/// The reading end. The holder of the reading rank's baton uses it. One reading end per pair and epoch.
class RingReader {
 public:
  RingReader(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index);
  /// Copies what is there, at most `bytes.size()`; returns the bytes given. An empty ring costs one load.
  size_t take(std::span<std::byte> bytes);
  /// Gives the space of the taken bytes back to the writer, with one sequentially consistent store.
  void release() { consumed_.store(position_); }
  /// Looks, sequentially consistently, at how far the writer is.
  size_t unread_bytes() const;
  bool empty() const { return unread_bytes() == 0; }
  /// Bytes that the writer cannot use yet: unread ones, and taken ones before their release.
  size_t occupied_bytes() const;
  size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<Segment> own_, peer_;
  const std::atomic<uint64_t>& written_;  ///< in `peer_`
  std::atomic<uint64_t>& consumed_;       ///< in `own_`
  const std::byte* bytes_;
  size_t capacity_;
  uint64_t position_;  ///< what `consumed_` holds after the next `release`
};

}  // namespace rueda::core
