// The folds of fold_vectors.h for whatever the build's target is: the set that every processor of the architecture
// runs.
#include "ops/kernels/fold_vectors.h"
#include "runtime/base/vectors_generic.h"

namespace rueda::core {

constinit const KernelSet kGenericKernels = make_kernels<GenericVectors>(Isa::kGeneric);

}  // namespace rueda::core
