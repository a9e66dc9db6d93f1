#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/codec.h"
#include "ops/kernels/reduce.h"
#include "ops/slice_cursor.h"

namespace rueda::core {

/// Whether a float has 16 bits, so that partial sums travel in fp32.
inline bool is_half(Dtype dtype) { return dtype == Dtype::kF16 || dtype == Dtype::kBf16; }

/// How the elements of one batch travel (wire type, codec, scales, order of the sum), and the passes between its
/// tensors and wire memory. Wire offsets count elements of the wire type. A value; borrows the call and its team.
class Packing {
 public:
  explicit Packing(const Call& call);

  size_t element_bytes() const { return size_of(wire_); }
  /// Whether an input travels with the bits it has in its tensor.
  bool as_is() const { return wire_ == call_.dtype && prescale_ == 1.0; }
  /// Whether fp32 inputs travel rounded to 16 bits and unchanged otherwise, so that a kernel may do it in registers.
  bool rounds() const { return codec_.only_rounds && call_.dtype == Dtype::kF32 && is_half(wire_) && prescale_ == 1.0; }
  /// Whether results are decoded on their way into a tensor.
  bool decodes() const { return wire_ != call_.dtype; }
  /// The reduction of one input per member, in the team's order.
  const ReduceTask& task() const { return task_; }
  SliceCursor cursor() const { return cursor(call_.slices); }
  /// Over other slices of the call's elements.
  SliceCursor cursor(std::span<const Slice> slices) const { return SliceCursor(slices, size_of(call_.dtype)); }

  /// Encodes and prescales the next `count` elements of the inputs to `to`. Stretches too short to gain from it are
  /// stored plainly whatever the hint.
  void pack(SliceCursor& cursor, int64_t count, std::byte* to, StoreHint hint) const;
  /// Decodes `count` wire elements into the outputs.
  void unpack(SliceCursor& cursor, int64_t count, const std::byte* from) const;
  /// Reduces wire inputs, one per member, straight into the outputs; rounds to the wire type on the way, so that the
  /// result is that of a rank which received it.
  void fold(SliceCursor& cursor, int64_t count, std::span<const std::byte* const> inputs) const;
  /// The same with the input of member `self` read from the cursor's tensors, whose bits travel as they are.
  void fold_with_own(SliceCursor& cursor, int64_t count, std::span<const std::byte* const> inputs, size_t self) const;

  /// `count` elements that lie in one piece, as they travel: encoded and prescaled.
  void encode(const std::byte* in, std::byte* to, int64_t count) const {
    codec_.encode(call_.dtype, prescale_, in, to, count, StoreHint::kPlain);
  }
  /// The way back of `count` elements in one piece.
  void decode(const std::byte* from, std::byte* out, int64_t count, StoreHint hint) const {
    codec_.decode(call_.dtype, from, out, count, hint);
  }

 private:
  void fold_decoding(SliceCursor& cursor, int64_t count, std::span<const std::byte*> inputs) const;

  const Call& call_;
  const Codec& codec_;
  Dtype wire_;
  double prescale_;
  ReduceTask task_;
};

/// The hint for one stretch of `bytes`: short ones are stored plainly, since the fence after non-temporal stores would
/// cost more than they save.
inline StoreHint hint_for(size_t bytes, StoreHint hint) {
  constexpr size_t kShortestStreamBytes = 4096;
  return bytes < kShortestStreamBytes ? StoreHint::kPlain : hint;
}

/// Bytes on the wire of a batch of this shape.
uint64_t wire_bytes(const BatchShape& shape);
/// Bytes of one wire element of a batch of this shape.
size_t wire_element_bytes(const BatchShape& shape);

}  // namespace rueda::core
