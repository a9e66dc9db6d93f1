#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/communicators.h"
#include "ops/cuda/nccl_sums.h"
#include "ops/exchange.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {

/// One batch as calls of NCCL in a stream that is behind the inputs' marks. Used by the device lane, once.
class NcclBatch {
 public:
  NcclBatch(const core::Call& call, CUstream stream, Communicators& communicators, core::EngineCall& host);
  /// Returns whether NCCL can compute what the call asks for; the same on all members.
  bool can_run() const { return !core::reduces(call_.kind) || sum_.has_value(); }
  /// Launches all of it. Fails as `Communicators::launch` does, or with kSystem if the GPU does.
  Status launch();

 private:
  Status launch_reduction();
  void add_sums();
  void add_sums_of_parts();
  void add_moves();
  Status exchange_rows();
  Status learn_counts(core::Exchange& exchange);
  Status copy_own_rows(core::Exchange& exchange);
  Status gather_at_once(const core::Exchange& exchange);
  Status launch_rows(core::Exchange& exchange);
  Status launch_steps(Communicators::Grouping grouping);
  Status no_memory(size_t bytes, const std::string& sent) const;

  const core::Call& call_;
  const CUstream stream_;
  Communicators& communicators_;
  core::EngineCall& host_;
  const CommunicatorKey key_;
  const std::optional<NcclSum> sum_;
  NcclOp op_ = NcclOp::kSum;
  std::vector<Communicators::Step> steps_;
};

}  // namespace rueda::cuda
