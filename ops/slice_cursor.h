#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// Elements that lie in one piece in their tensors. An address that the slice does not have is null.
struct Stretch {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

/// Walks the slices of a batch as one run of elements, so that a chunk may begin and end anywhere in any tensor.
/// A value; borrows the slices.
class SliceCursor {
 public:
  SliceCursor(std::span<const Slice> slices, size_t element_bytes)
      : slices_(slices), element_bytes_(static_cast<int64_t>(element_bytes)) {}

  /// Calls `piece(in, out, count)` for each stretch of one tensor in the next `count` elements, in order, and moves
  /// past them. `piece` is never called with 0 elements; what a slice does not have is null.
  template <typename Piece>
  void take(int64_t count, Piece&& piece) {
    while (count > 0) {
      const Slice& slice = slices_[index_];
      const int64_t length = std::min(count, slice.count - offset_);
      if (length > 0) {
        const int64_t byte = offset_ * element_bytes_;
        piece(moved(slice.in, byte), moved(slice.out, byte), length);
        count -= length;
      }
      advance(slice, length);
    }
  }
  /// The next `count` elements; both null if they are not of one tensor.
  Stretch stretch(int64_t count) const {
    size_t index = index_;
    while (index < slices_.size() && slices_[index].count == 0) ++index;
    if (index == slices_.size() || slices_[index].count - offset_ < count) return {};
    const int64_t byte = offset_ * element_bytes_;
    return {moved(slices_[index].in, byte), moved(slices_[index].out, byte)};
  }
  void skip(int64_t count) {
    while (count > 0) {
      const Slice& slice = slices_[index_];
      const int64_t length = std::min(count, slice.count - offset_);
      count -= length;
      advance(slice, length);
    }
  }

 private:
  template <typename Byte>
  static Byte* moved(Byte* pointer, int64_t bytes) {
    return pointer == nullptr ? nullptr : pointer + bytes;
  }
  void advance(const Slice& slice, int64_t length) {
    offset_ += length;
    if (offset_ == slice.count) {
      ++index_;
      offset_ = 0;
    }
  }

  std::span<const Slice> slices_;
  int64_t element_bytes_;
  size_t index_ = 0;
  int64_t offset_ = 0;
};

}  // namespace rueda::core
