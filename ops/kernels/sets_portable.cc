// A build for other processors than x86 has one set of kernels.
#include "ops/kernels/reduce.h"

namespace rueda::core {

const KernelSet& kernels(Isa) { return kGenericKernels; }

}  // namespace rueda::core
