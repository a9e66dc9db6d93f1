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
