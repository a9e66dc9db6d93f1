// The passes of cast_vectors.h for AVX2 and F16C (this file alone is built with their flags).
#include "compression/cast_vectors.h"
#include "runtime/base/vectors_avx2.h"

namespace rueda::core {

constinit const CastSet kAvx2Casts = make_casts<Avx2Vectors>(Isa::kAvx2);

}  // namespace rueda::core
