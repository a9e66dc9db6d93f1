#pragma once
#include <string>

#include "tests/support/cuda/standin.h"

namespace rueda::test {

/// Returns whether the tests run on GPUs instead of the stand-in: TEST_GPU=1, as scripts/gpu-check sets it.
bool on_real_gpus();

/// GPUs through the same door as the stand-in. Its memory is pinned memory of the host, which a GPU reads and writes at
/// the host's address; a kernel of a test is a function of the host in the order of a stream. Nothing is counted: all
/// counts are 0. Throws std::runtime_error if the driver refuses, and for what only a stand-in can do: faults on order.
StandinCuda& real_gpu();

}  // namespace rueda::test
