#include "compression/cast_lanes.h"
#include "runtime/base/lanes_generic.h"

namespace rueda::core {

constinit const CastSet kGenericCasts = make_casts<GenericVectors>(Isa::kGeneric);

}  // namespace rueda::core
