#pragma once
#include <vector>

#include "ops/cuda/communicators.h"
#include "ops/cuda/packer.h"

namespace rueda::cuda {

/// An all-reduce by NCCL and kernels: through the buffer if its tensors are small or their elements change, else on the
/// tensors themselves. Used by the device lane, once.
class PackedBatch {
 public:
  /// `stream` is behind the inputs' marks, and the one of the buffer.
  PackedBatch(const core::Call& call, const PackPlan& plan, const Kernels& kernels, CUstream stream,
              FusionBuffer& buffer, Communicators& communicators, core::EngineCall& host)
      : call_(call),
        plan_(plan),
        stream_(stream),
        buffer_(buffer),
        packer_(plan, kernels, stream, buffer, host),
        communicators_(communicators),
        host_(host),
        key_{call.device->set, Reach::kSet} {}
  /// Launches all of it. Fails as `Communicators::launch` does, or with kSystem if the GPU does.
  Status launch();

 private:
  Status exchange(std::span<const Communicators::Step> steps);
  Status launch_rounds();
  Status launch_on_tensors();
  Status finish_tensors();
  Result<NcclOp> scaled_op();

  const core::Call& call_;
  const PackPlan plan_;
  const CUstream stream_;
  FusionBuffer& buffer_;
  Packer packer_;
  Communicators& communicators_;
  core::EngineCall& host_;
  const CommunicatorKey key_;
};

/// The tensors of the batch as they are on all members, also those that this one does not bring.
inline std::span<const core::Slice> tensors_of(const core::Call& call) {
  return call.device->tensors.empty() ? call.slices : std::span<const core::Slice>(call.device->tensors);
}

/// Returns whether a batch of these tensors is faster through the buffer: several tensors, and short ones. Pure.
bool are_small(std::span<const core::Slice> slices, size_t element_bytes);

/// Returns whether the call's tensors, or what a member does not bring of them, go through the buffer. Pure.
bool goes_through_buffer(const core::Call& call, const PackPlan& plan);

}  // namespace rueda::cuda
