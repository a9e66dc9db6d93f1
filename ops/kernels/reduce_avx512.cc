// The folds of fold_vectors.h for AVX-512 (this file alone is built with its flags).
#include "ops/kernels/fold_vectors.h"
#include "runtime/base/vectors_avx512.h"

namespace rueda::core {

constinit const KernelSet kAvx512Kernels = make_kernels<Avx512Vectors>(Isa::kAvx512);

}  // namespace rueda::core
