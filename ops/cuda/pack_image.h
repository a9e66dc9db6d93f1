#pragma once
#include <cstddef>
#include <span>

namespace rueda::cuda {

/// The kernels of pack.cu and fold.cu, compiled for several generations of GPUs, as the driver takes them. Empty if the
/// plug-in was built without nvcc. Lives as long as the process.
std::span<const std::byte> pack_image();

/// Returns what `hvdrun --check-build` says of them: for which GPUs they are, or how to get them.
const char* describe_pack_image();

}  // namespace rueda::cuda
