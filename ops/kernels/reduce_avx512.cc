#include "ops/kernels/fold_lanes.h"
#include "runtime/base/lanes_avx512.h"

namespace rueda::core {

constinit const KernelSet kAvx512Kernels = make_kernels<Avx512Vectors>(Isa::kAvx512);

}  // namespace rueda::core
