#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

/// What the kernel in fold.cu and the code that launches it share.
namespace rueda::cuda {

/// Bytes that a thread folds at once. Slices begin and end at multiples of it.
inline constexpr int64_t kFoldBytes = 16;
/// Members of the greatest set whose bracket goes with the parameters of a launch.
inline constexpr uint32_t kMostFolded = 8192;
inline constexpr unsigned kFoldThreads = 256;  ///< of a block
inline constexpr const char* kFoldKernelName = "rueda_fold";

/// A slice's reduction: a left fold inside each group of members, then a left fold over the groups' values. Arithmetic
/// and finish are those of `core::ReduceTask`, bit by bit.
///
///   others   | member 0's | member 1's |   hole   | member 3's |     of each member the same slice, `stride` bytes
///   apart slice                                own slice                 read in its place, then written
struct FoldParameters {
  core::Dtype dtype;
  core::ReduceOp op;  ///< of truth values a minimum, a maximum or xor
  uint32_t members;
  uint32_t own;      ///< this rank's index among the members
  int64_t bytes;     ///< of the slice
  int64_t stride;    ///< bytes from one member's slice to the next one's in `others`
  int64_t divisor;   ///< of an average; 1: none
  double postscale;  ///< 1: none
  const std::byte* others;
  std::byte* slice;
  /// Bit m % 32 of number m / 32: member m begins a group.
  uint32_t begins[kMostFolded / 32];
};
static_assert(sizeof(FoldParameters) <= 4096);

/// Returns whether a group begins with this member.
constexpr bool begins_group(const FoldParameters& parameters, uint32_t member) {
  return (parameters.begins[member / 32] >> (member % 32) & 1) != 0;
}

}  // namespace rueda::cuda
