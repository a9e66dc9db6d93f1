// The time stamp counter. RDTSC, not RDTSCP: the reading need not wait for the loads before it, a phase lasts
// microseconds.
#include "runtime/base/ticks.h"

namespace rueda::core {

uint64_t ticks() { return __builtin_ia32_rdtsc(); }

}  // namespace rueda::core
