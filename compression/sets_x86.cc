// A build for x86 has three sets of passes; the processor it runs on decides how far up it may go.
#include "compression/cast.h"

namespace rueda::core {

const CastSet& casts(Isa isa) {
  if (isa > best_isa()) isa = best_isa();
  switch (isa) {
    case Isa::kAvx512: return kAvx512Casts;
    case Isa::kAvx2: return kAvx2Casts;
    case Isa::kGeneric: break;
  }
  return kGenericCasts;
}

}  // namespace rueda::core
