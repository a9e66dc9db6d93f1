#pragma once
#include <span>
#include <vector>

#include "ops/packing.h"

namespace rueda::core {

/// The two folds of a hierarchical all-reduce: a host's inputs to its sum, and the hosts' sums to the result. "Sum" is
/// whatever the operator does. Owned by one run of an algorithm; borrows the packing.
///
///   exact    a host's sum travels in the accumulator: fp32 for 16-bit wire types, else the wire type. The two folds
///            are then the canonical bracket, to the bit.
///   narrow   16-bit wire types travel as they are, one more rounding for half the bytes. Sums of fp16 are scaled by a
///            power of two before it, so that none overflows that would not in the end.
class HostSums {
 public:
  enum class Width { kExact, kNarrow };
  HostSums(const Call& call, const Packing& packing, Width width);

  /// Bytes of one element of a host's sum.
  size_t element_bytes() const { return size_of(dtype_); }
  /// `inputs` are of the wire type, one for each rank of the host, in order.
  void of_host(std::span<const std::byte* const> inputs, std::byte* sum, int64_t count);
  /// `sums` are in the order of the hosts, `out` is of the wire type.
  void of_all(std::span<const std::byte* const> sums, std::byte* out, int64_t count);

 private:
  Dtype wire_;
  Dtype dtype_;
  ReduceTask host_, all_;
  std::vector<std::byte> block_;  ///< inputs of a block, or its result, in the accumulator
  std::vector<const std::byte*> at_;
};

}  // namespace rueda::core
