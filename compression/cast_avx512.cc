// The passes of cast_vectors.h for AVX-512 (this file alone is built with its flags).
#include "compression/cast_vectors.h"
#include "runtime/base/vectors_avx512.h"

namespace rueda::core {

constinit const CastSet kAvx512Casts = make_casts<Avx512Vectors>(Isa::kAvx512);

}  // namespace rueda::core
