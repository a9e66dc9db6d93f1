// The folds of fold_vectors.h for AVX2 and F16C (this file alone is built with their flags).
#include "ops/kernels/fold_vectors.h"
#include "runtime/base/vectors_avx2.h"

namespace rueda::core {

constinit const KernelSet kAvx2Kernels = make_kernels<Avx2Vectors>(Isa::kAvx2);

}  // namespace rueda::core
