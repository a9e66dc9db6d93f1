#include "ops/kernels/fold_lanes.h"
#include "runtime/base/lanes_generic.h"

namespace rueda::core {

constinit const KernelSet kGenericKernels = make_kernels<GenericVectors>(Isa::kGeneric);

}  // namespace rueda::core
