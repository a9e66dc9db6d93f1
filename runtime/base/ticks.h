#pragma once
#include <cstdint>

namespace rueda::core {

/// A counter that runs evenly and costs a fraction of what a look at the clock costs, which waits for all loads before
/// it: the processor's time stamp counter where there is one, else nanoseconds of the clock. Its rate is the machine's
/// own; readings of one thread within moments of each other can be compared. Any thread.
uint64_t ticks();

}  // namespace rueda::core
