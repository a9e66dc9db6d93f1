#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/dtype.h"

namespace rueda::perf {

/// Inputs and expected results from a formula: small whole numbers, different on every rank, that repeat after a prime
/// number of elements, so that a chunk in the wrong position shows. All sums and products of them are exact in every
/// dtype and codec.
class Pattern {
 public:
  /// Of `rank` among `ranks`; the results are those of `op` over all of them.
  Pattern(core::Dtype dtype, core::ReduceOp op, int rank, int ranks);
  /// The same for a broadcast: the result is what `root` has.
  static Pattern of_broadcast(core::Dtype dtype, int rank, int root);

  /// Writes this rank's input of tensor number `index`, a whole number of elements.
  void fill(std::span<std::byte> tensor, size_t index) const;
  /// Whether `tensor` holds the result.
  bool holds(std::span<const std::byte> tensor, size_t index) const;

 private:
  Pattern(core::Dtype dtype, std::vector<std::byte> input, std::vector<std::byte> result);
  bool equal(const std::byte* found, const std::byte* expected, size_t bytes) const;

  core::Dtype dtype_;
  double tolerance_ = 0;  ///< relative; above 0 only for averages of floats: the division may round either way
  std::vector<std::byte> input_;
  std::vector<std::byte> result_;
};

}  // namespace rueda::perf
