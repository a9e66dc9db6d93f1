#pragma once
#include <span>
#include <vector>

#include "ops/cuda/fusion_buffer.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/pack_plan.h"

namespace rueda::cuda {

/// The passes of a batch between its tensors and the buffer. Used by the device lane.
class Packer {
 public:
  /// `stream` is the one of the buffer. All of them outlive it.
  Packer(const PackPlan& plan, const Kernels& kernels, CUstream stream, FusionBuffer& buffer, core::EngineCall& host)
      : plan_(plan), kernels_(kernels), stream_(stream), buffer_(buffer), host_(host) {}
  /// Copies a round's pieces to the buffer, as they travel. Fails as `FusionBuffer::put` and `Kernels::launch` do.
  Status gather(std::span<const PackPiece> pieces, uint32_t tiles);
  /// Copies the results of the last `gather` back.
  Status scatter();
  /// Divides and scales results that lie in the tensors. Fails as `gather`.
  Status finish(std::span<const PackPiece> pieces, uint32_t tiles);

 private:
  void set_task(PackWay way, std::byte* memory, uint32_t tiles, uint32_t lanes);

  const PackPlan plan_;
  const Kernels& kernels_;
  const CUstream stream_;
  FusionBuffer& buffer_;
  core::EngineCall& host_;
  PackParameters parameters_{};  ///< of the last launch, whose table stays for another one
};

}  // namespace rueda::cuda
