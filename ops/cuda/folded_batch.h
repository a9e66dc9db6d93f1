#pragma once
#include <optional>

#include "ops/cuda/communicators.h"
#include "ops/cuda/fold_task.h"
#include "ops/cuda/packer.h"

namespace rueda::cuda {

/// How kernels of Rueda's own compute an all-reduce, for which NCCL only moves bytes.
struct FoldPlan {
  PackPlan pack;        ///< how inputs travel and results come back, without divisors and scales of results
  FoldParameters fold;  ///< the bracket, the operator and the finish; no slice yet
};

/// Returns whether kernels can fold `op` of `dtype`: all that the host's kernels fold. Pure.
bool can_fold(core::Dtype dtype, core::ReduceOp op);

/// Returns how the call's reduction is computed; empty if it cannot be. The same on all members but for `fold.own`.
/// Pure.
std::optional<FoldPlan> fold_plan_of(const core::Call& call);

/// An all-reduce with the bits that the host gives in the canonical order. Used by the device lane, once.
class FoldedBatch {
 public:
  /// `stream` is behind the inputs' marks, and the one of the buffer.
  FoldedBatch(const core::Call& call, const FoldPlan& plan, const Kernels& kernels, CUstream stream,
              FusionBuffer& buffer, Communicators& communicators, core::EngineCall& host)
      : call_(call),
        plan_(plan),
        kernels_(kernels),
        stream_(stream),
        buffer_(buffer),
        packer_(plan.pack, kernels, stream, buffer, host),
        communicators_(communicators),
        host_(host),
        key_{call.device->set, Reach::kSet},
        members_(call.team->size()),
        index_(call.team->index) {}
  /// Launches all of it. Fails as `Communicators::launch` does, or with kSystem if the GPU does.
  Status launch();

 private:
  /// The slices of a round: member m's begins at m * `stride` and has up to `stride` bytes.
  struct Slices {
    int64_t stride;
    int64_t bytes;  ///< of all
    int64_t length(int member) const;
  };
  Status exchange(const Slices& slices);
  Status fold(const Slices& slices);
  Status spread(const Slices& slices);

  const core::Call& call_;
  const FoldPlan& plan_;
  const Kernels& kernels_;
  const CUstream stream_;
  FusionBuffer& buffer_;
  Packer packer_;
  Communicators& communicators_;
  core::EngineCall& host_;
  const CommunicatorKey key_;
  const int members_;
  const int index_;
};

}  // namespace rueda::cuda
