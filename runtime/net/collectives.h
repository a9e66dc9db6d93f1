#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"

namespace rueda::core {

/// A library's own collectives among all ranks of the epoch, on one lane: every rank starts the same ones in the same
/// order. They progress inside `ChannelSet::until`, and a failure of one is a failure of the set. The holder of the
/// lane's token uses it.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Starts to replace `count` elements by their reduction over all ranks. Borrows `data` until `finished()` reaches
  /// the returned number. Not for averages, Adasum and 16-bit floats.
  virtual uint64_t allreduce(Dtype dtype, ReduceOp op, std::byte* data, int64_t count) = 0;
  /// Starts to replace the bytes by those of `root`, a rank of the epoch. Borrows `data` in the same way.
  virtual uint64_t broadcast(int root, std::span<std::byte> data) = 0;
  /// How many of the started collectives are complete; they complete in order.
  virtual uint64_t finished() const = 0;
};

}  // namespace rueda::core
