// Stands in for the kernels in a build without nvcc.
#include "ops/cuda/pack_image.h"

namespace rueda::cuda {

std::span<const std::byte> pack_image() { return {}; }

const char* describe_pack_image() {
  return "built without kernels, since there was no nvcc: small tensors are not packed, and codecs and averages of "
         "integers go through the host (the wheel that scripts/wheel makes has them; a build from source needs nvcc, "
         "which scripts/setup --nvcc brings: then configure and build again)";
}

}  // namespace rueda::cuda
