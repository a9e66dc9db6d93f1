// Finds ranks of this host whose process is stopped, by looking at its state again and again.
//
// A look is a sample, and only the time between two looks that agree counts. The looks come every 200 ms while a rank
// seems not to run, so it would have to run for a shorter moment to be missed.
#include "runtime/engine/stopped_peers.h"

#include <algorithm>

#include "runtime/engine/heart.h"

namespace rueda::core {

StoppedPeers::Finding StoppedPeers::seen(int rank, const PeerSign& sign, SteadyClock::time_point now) {
  if (limits_.whole.count() <= 0) return Finding::kNone;
  const auto [at, first] = peers_.try_emplace(rank, Peer{.looked = now, .beats = sign.beats});
  Peer& peer = at->second;
  const std::chrono::nanoseconds passed = std::min<std::chrono::nanoseconds>(now - peer.looked, limits_.whole / 5);
  peer.looked = now;
  const bool traced = sign.state == 't';
  const bool alive = first || traced || sign.beats != peer.beats || sign.beats == Heart::kAtRest;
  peer.beats = sign.beats;
  peer.silent = alive ? std::chrono::nanoseconds(0) : peer.silent + passed;
  if (sign.state != 'T') {
    peer.stopped.reset();
  } else {
    peer.stopped = peer.stopped ? *peer.stopped + passed : std::chrono::nanoseconds(0);
  }
  const bool stopped = peer.stopped && *peer.stopped >= stopped_limit(rank);
  // Silence goes with a stop that is seen; it is told by its own limit, which comes first.
  const std::chrono::nanoseconds patience = sign.beats == 0 ? limits_.first_beat : std::chrono::nanoseconds(0);
  const bool silent = peer.silent >= silent_limit(rank) + patience;
  if (peer.told || (!stopped && !silent)) return Finding::kNone;
  peer.told = true;
  return stopped ? Finding::kStopped : Finding::kSilent;
}

/// Hearts beat twice within a fifth of the limit, so a healthy one is never silent for that long.
bool StoppedPeers::watching() const {
  return std::any_of(peers_.begin(), peers_.end(), [this](const auto& entry) {
    const Peer& peer = entry.second;
    return !peer.told && (peer.stopped || (peer.beats != 0 && peer.silent >= limits_.whole / 5));
  });
}

}  // namespace rueda::core
