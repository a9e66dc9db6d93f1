#pragma once
#include <cstdint>

namespace rueda::core {

/// Reads a counter that runs evenly and is cheaper than the clock, which waits for all loads before it: the processor's
/// time stamp counter if there is one, else nanoseconds of the clock. Its rate depends on the machine. Compare only
/// readings of one thread within a short time. Any thread.
uint64_t ticks();

}  // namespace rueda::core
