// A build for x86 has three sets of kernels; the processor it runs on decides how far up it may go.
#include "ops/kernels/reduce.h"

namespace rueda::core {

const KernelSet& kernels(Isa isa) {
  if (isa > best_isa()) isa = best_isa();
  switch (isa) {
    case Isa::kAvx512: return kAvx512Kernels;
    case Isa::kAvx2: return kAvx2Kernels;
    case Isa::kGeneric: break;
  }
  return kGenericKernels;
}

}  // namespace rueda::core
