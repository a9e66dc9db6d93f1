#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"

namespace rueda::core {

/// A library's own collectives among all ranks of the epoch, on one lane: every rank starts the same ones in the same
/// order. They get on inside `ChannelSet::until`, and a failure of one is a failure of the set. Used by the holder of
/// the lane's token.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Replaces `count` elements by their reduction over all ranks. `data` is borrowed until `finished()` reaches the
  /// number returned. Not for averages, Adasum and 16-bit floats.
  virtual uint64_t allreduce(Dtype dtype, ReduceOp op, std::byte* data, int64_t count) = 0;
  /// Replaces the bytes by those of `root`, a rank of the epoch. Borrowed in the same way.
  virtual uint64_t broadcast(int root, std::span<std::byte> data) = 0;
  /// How many are through, in the order in which they were started.
  virtual uint64_t finished() const = 0;
};

}  // namespace rueda::core
