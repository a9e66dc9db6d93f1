// What is the same on all processors; isa_x86.cc and isa_portable.cc find out what this one can do.
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
