#include "compression/cast_lanes.h"
#include "runtime/base/lanes_avx512.h"

namespace rueda::core {

constinit const CastSet kAvx512Casts = make_casts<Avx512Vectors>(Isa::kAvx512);

}  // namespace rueda::core
