// A look is a sample. A process that two looks found stopped counts as stopped in between, though it may have run for a
// moment. While a process is stopped the looks come every 200 ms, so that moment would have to be short.
#include "runtime/engine/stopped_peers.h"

namespace rueda::core {

bool StoppedPeers::seen(int rank, char state, SteadyClock::time_point now) {
  if (state != 'T') {
    stopped_.erase(rank);
    return false;
  }
  Stop& stop = stopped_.try_emplace(rank, Stop{now}).first->second;
  if (limit_.count() <= 0 || stop.told || now - stop.since < limit_) return false;
  stop.told = true;
  return true;
}

}  // namespace rueda::core
