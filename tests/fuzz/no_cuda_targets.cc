// Instead of cuda_targets.cc if the CUDA plug-in is not built.
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {

std::span<const Target> cuda_targets() { return {}; }

}  // namespace rueda::fuzz
