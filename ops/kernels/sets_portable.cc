#include "ops/kernels/reduce.h"

namespace rueda::core {

const KernelSet& kernels(Isa) { return kGenericKernels; }

}  // namespace rueda::core
