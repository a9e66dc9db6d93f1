// The passes of cast_vectors.h for whatever the build's target is: the set that every processor of the architecture
// runs.
#include "compression/cast_vectors.h"
#include "runtime/base/vectors_generic.h"

namespace rueda::core {

constinit const CastSet kGenericCasts = make_casts<GenericVectors>(Isa::kGeneric);

}  // namespace rueda::core
