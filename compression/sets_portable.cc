#include "compression/cast.h"

namespace rueda::core {

const CastSet& casts(Isa) { return kGenericCasts; }

}  // namespace rueda::core
