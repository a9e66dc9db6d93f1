// A build for other processors than x86 has one set of passes.
#include "compression/cast.h"

namespace rueda::core {

const CastSet& casts(Isa) { return kGenericCasts; }

}  // namespace rueda::core
