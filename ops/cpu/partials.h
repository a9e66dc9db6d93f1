#pragma once
#include "ops/packing.h"

namespace rueda::core {

/// How algorithms that move partial results carry them: sums of 16-bit types in fp32, so that no hop rounds; every
/// other type as it travels. Inputs and results go through the batch's codec, as in every algorithm. A value; borrows
/// the packing.
class Partials {
 public:
  Partials(const Call& call, const Packing& packing);

  /// Bytes of one partial result; at least `packing.element_bytes()`.
  size_t element_bytes() const { return size_of(dtype_); }
  /// The type of a partial result, and the operator that combines two of them: a sum if the call averages.
  Dtype dtype() const { return dtype_; }
  ReduceOp op() const { return combine_.op; }
  /// Packs the next `count` inputs as partial results of one rank.
  void load(SliceCursor& cursor, int64_t count, std::byte* to) const;
  /// out = first (op) second; `out` may be either. Which one is first matters to the sign of a zero minimum only.
  void combine(const std::byte* first, const std::byte* second, std::byte* out, int64_t count) const;
  /// Averages, scales and rounds all ranks' partial result to the wire type. `partial` is used up.
  void finish(std::byte* partial, std::byte* wire, int64_t count) const;

 private:
  const Packing& packing_;
  Dtype wire_;
  Dtype dtype_;
  ReduceTask combine_;
  ReduceTask finish_;
};

/// Whether partial results of this call lead to the promised bits: a postscaled sum of integers must be exact before it
/// is scaled, and a partial sum has wrapped by then. Algorithms run `direct` for the others.
bool partials_serve(const Call& call);

}  // namespace rueda::core
