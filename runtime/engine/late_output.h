#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/engine/lane.h"

namespace rueda::core {

/// Whether the member's output is to come from the caller's allocation callback.
bool needs_output(const Member& member);

/// Outputs that the caller's callbacks place, called once each, on the lane's thread, just before the batch runs. Where a
/// callback has no memory, this rank takes part with a sink, so that its peers succeed, and the member carries the
/// failure. Lives while the batch runs.
class LateOutputs {
 public:
  /// Fills in the places in `batch.storage`.
  explicit LateOutputs(Batch& batch);

 private:
  std::vector<std::unique_ptr<std::byte[]>> sinks_;
};

}  // namespace rueda::core
