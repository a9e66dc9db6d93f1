#include "runtime/base/isa.h"

namespace rueda::core {

Isa best_isa() { return available_isas().back(); }

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::kGeneric: return "generic";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "?";
}

}  // namespace rueda::core
