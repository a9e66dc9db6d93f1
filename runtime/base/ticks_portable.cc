// Ticks where no counter is known: nanoseconds of the clock.
#include "runtime/base/deadline.h"
#include "runtime/base/ticks.h"

namespace rueda::core {

uint64_t ticks() { return static_cast<uint64_t>(SteadyClock::now().time_since_epoch().count()); }

}  // namespace rueda::core
