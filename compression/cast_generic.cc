#include "compression/cast_vectors.h"
#include "runtime/base/vectors_generic.h"

namespace rueda::core {

constinit const CastSet kGenericCasts = make_casts<GenericVectors>(Isa::kGeneric);

}  // namespace rueda::core
