#pragma once
#include <cstddef>
#include <span>

#include "runtime/net/segment.h"

namespace rueda::core {

/// The writing end of the byte ring from one local rank to another. Used by the baton's holder of the writing process.
class RingWriter {
 public:
  /// `own_index`, `peer_index`: local ranks.
  RingWriter(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index);
  /// Copies as much as fits and publishes it with one sequentially consistent store; returns the bytes taken.
  /// The caller rings the reader (ControlWords::asleep, eventfd) afterwards.
  size_t write(std::span<const std::byte> bytes);
  size_t free_bytes() const;

 private:
  std::shared_ptr<Segment> own_, peer_;
  int own_index_, peer_index_;
};

/// The reading end. Used by the baton's holder of the reading process.
class RingReader {
 public:
  RingReader(std::shared_ptr<Segment> own, std::shared_ptr<Segment> peer, int own_index, int peer_index);
  /// Copies what is there, at most `bytes.size()`; returns the bytes given. 0 bytes is one relaxed-cost load.
  size_t read(std::span<std::byte> bytes);
  bool empty() const;

 private:
  std::shared_ptr<Segment> own_, peer_;
  int own_index_, peer_index_;
};

}  // namespace rueda::core
