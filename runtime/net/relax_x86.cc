// One step of a spin on x86. PAUSE leaves the core's other hyper-thread the execution units and spares the mispredicted
// exit of the loop.
#include <sched.h>

#include "runtime/net/doorbell.h"

namespace rueda::core {

void relax(WaitStyle style) {
  if (style == WaitStyle::kYield) {
    ::sched_yield();
  } else {
    __builtin_ia32_pause();
  }
}

}  // namespace rueda::core
