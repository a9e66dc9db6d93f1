#include "runtime/base/ticks.h"

namespace rueda::core {

uint64_t ticks() { return __builtin_ia32_rdtsc(); }

}  // namespace rueda::core
