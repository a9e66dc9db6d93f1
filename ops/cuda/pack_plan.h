#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/nccl_abi.h"
#include "ops/cuda/pack_tiles.h"
#include "runtime/engine/executor.h"

namespace rueda::cuda {

/// How kernels and NCCL compute an all-reduce together: what an element is on its way, what is done before and after.
struct PackPlan {
  core::Dtype part;  ///< the tensors' type; of complex numbers their parts'
  int64_t parts;     ///< of an element
  PackWire wire;
  int64_t wire_bytes;  ///< of a part in the buffer
  NcclType type;
  NcclOp op;
  double before;    ///< factor of each input
  int64_t divisor;  ///< of the sum; 1: none
  double after;     ///< factor of the result
  uint64_t neutral;
  bool needs_buffer;  ///< NCCL cannot work on the tensors themselves

  /// Bytes of one number of `type`.
  int64_t number_bytes() const;
  /// Whether kernels have something to do with the results.
  bool finishes() const { return divisor != 1 || after != 1.0; }
};

/// Returns how elements of a type travel that a codec may change: only those of f32 and f64. Pure.
PackWire wire_of_codec(core::Dtype dtype, core::CodecId codec);

/// Returns by what the call's sum is divided; 1 unless it is an average. Pure.
int64_t divisor_of(const core::Call& call);

/// Returns whether kernels and NCCL together can compute `op` of `dtype`, whatever its scales. Minimum and maximum of
/// floats go through the host, because NCCL drops NaNs; so do bitwise operators, adaptive sums, and products of complex
/// numbers. Pure.
bool can_pack(core::Dtype dtype, core::ReduceOp op);

/// Returns how the call's reduction is computed; empty if it cannot be. The same on all members. Pure.
std::optional<PackPlan> pack_plan_of(const core::Call& call);

/// Cuts the tensors of a batch into rounds: what fits into the buffer and the table at once. Offsets are a function of
/// the tensors' lengths alone, so all members cut alike.
class PackRounds {
 public:
  PackRounds(std::span<const core::Slice> slices, const PackPlan& plan, int64_t most_bytes, size_t most_pieces)
      : slices_(slices), plan_(plan), most_bytes_(most_bytes), most_pieces_(most_pieces) {}
  /// Writes the next round's pieces, none without elements. Returns false if there is nothing left.
  bool next(std::vector<PackPiece>& pieces);
  /// Bytes of the buffer that the round takes, gaps between pieces included.
  int64_t bytes() const { return bytes_; }
  uint32_t tiles() const { return tiles_; }

 private:
  const std::span<const core::Slice> slices_;
  const PackPlan plan_;
  const int64_t most_bytes_;
  const size_t most_pieces_;
  size_t tensor_ = 0;
  int64_t done_ = 0;  ///< parts of that tensor
  int64_t bytes_ = 0;
  uint32_t tiles_ = 0;
};

}  // namespace rueda::cuda
