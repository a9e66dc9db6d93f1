#pragma once
#include <utility>

#include "ops/algorithm.h"

namespace rueda::core {

/// Calls `step()` until it is done, waiting in between as `Mesh::until` does and with its failures; a failure of the
/// step itself comes back as it is. `step` returns Result<StepResult>.
template <typename Step>
Status run_steps(Mesh& mesh, Deadline deadline, Step&& step) {
  Status failure;
  const auto finished = [&] {
    const Result<StepResult> result = step();
    failure = result.status();
    return !result.ok() || result.value() == StepResult::kDone;
  };
  if (!finished()) {
    if (Status waited = mesh.until(finished, deadline); !waited.ok()) return waited;
  }
  return failure;
}

}  // namespace rueda::core
