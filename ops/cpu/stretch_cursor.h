#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>

#include "ops/exchange.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// Walks stretches of memory as one run of bytes. A value; borrows the memory.
class StretchCursor {
 public:
  StretchCursor() = default;
  explicit StretchCursor(Exchange::Stretches stretches) : stretches_(std::move(stretches)) {}

  /// Copies the next `bytes` bytes to `to`.
  void read(size_t bytes, std::byte* to, StoreHint hint);
  /// Copies `from` over the next `bytes` bytes; skips those that are dropped.
  void write(size_t bytes, const std::byte* from);

 private:
  /// Calls `piece(data, length)` for each stretch of the next `bytes` bytes; `data` is null if they are dropped.
  template <typename Piece>
  void take(size_t bytes, Piece&& piece) {
    while (bytes > 0) {
      const Exchange::Stretch& stretch = stretches_[index_];
      const size_t length = std::min(bytes, stretch.bytes - offset_);
      piece(stretch.data == nullptr ? nullptr : stretch.data + offset_, length);
      bytes -= length;
      offset_ += length;
      if (offset_ < stretch.bytes) continue;
      ++index_;
      offset_ = 0;
    }
  }

  Exchange::Stretches stretches_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace rueda::core
