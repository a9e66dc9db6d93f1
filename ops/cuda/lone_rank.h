#pragma once
#include <cuda.h>

#include "runtime/base/status.h"
#include "runtime/engine/executor.h"

namespace rueda::cuda {

/// Returns whether the call is of a set of one rank, and gives the tensors as they are: an all-reduce without scale,
/// codec and truth values, or a broadcast. Pure.
bool changes_nothing(const core::Call& call);

/// Copies the inputs whose outputs lie elsewhere. The stream is behind their marks. Returns kSystem if the GPU fails.
core::Status copy_to_outputs(const core::Call& call, CUstream stream);

}  // namespace rueda::cuda
