// One step of a spin on processors without a pause instruction that the compiler knows.
#include <sched.h>

#include <atomic>

#include "runtime/net/doorbell.h"

namespace rueda::core {

void relax(WaitStyle style) {
  if (style == WaitStyle::kYield) {
    ::sched_yield();
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not fold the spin's loads into one
  }
}

}  // namespace rueda::core
