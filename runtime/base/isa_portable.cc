// Processors that have no kernels of their own run the generic ones.
#include "runtime/base/isa.h"

namespace rueda::core {

std::span<const Isa> available_isas() {
  static constexpr Isa kOnly[] = {Isa::kGeneric};
  return kOnly;
}

}  // namespace rueda::core
