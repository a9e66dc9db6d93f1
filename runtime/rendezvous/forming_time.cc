// Twice the time of init, or more if hvdrun takes longer to end a member.
#include "runtime/rendezvous/forming_time.h"

#include <algorithm>

namespace rueda::core {

std::chrono::nanoseconds forming_time(std::chrono::duration<double> init, std::chrono::duration<double> rejoin) {
  constexpr std::chrono::duration<double> kLongest{1e9};  // more does not fit into nanoseconds
  if (init.count() <= 0) return std::chrono::nanoseconds(0);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(kLongest, init + std::max(init, rejoin)));
}

}  // namespace rueda::core
