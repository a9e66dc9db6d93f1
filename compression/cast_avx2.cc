#include "compression/cast_vectors.h"
#include "runtime/base/vectors_avx2.h"

namespace rueda::core {

constinit const CastSet kAvx2Casts = make_casts<Avx2Vectors>(Isa::kAvx2);

}  // namespace rueda::core
