// Finds peers on other hosts that have sent nothing for too long.
//
// A peer is judged by what this process has seen at its looks. If this process itself was stopped, or had no core, the
// time in between says nothing about peers: then every silence counts anew from now.
#include "runtime/engine/heartbeats.h"

namespace rueda::core {

/// Without a limit there is nothing to watch, and then no frames are sent either.
Heartbeats::Heartbeats(const std::vector<int>& peers, std::chrono::nanoseconds limit) : limit_(limit) {
  if (limit_.count() <= 0) return;
  for (const int rank : peers) peers_.emplace(rank, Peer());
}

void Heartbeats::heard(int rank) {
  const auto peer = peers_.find(rank);
  if (peer != peers_.end()) peer->second.heard = peer->second.known = true;
}

std::vector<int> Heartbeats::watched() const {
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_) ranks.push_back(rank);
  return ranks;
}

/// Three beats fit in the limit, so one that leaves a little late, at the next look, still comes in time.
bool Heartbeats::due(SteadyClock::time_point now) {
  if (peers_.empty() || now - last_beat_ < limit_ / 3) return false;
  last_beat_ = now;
  return true;
}

std::vector<int> Heartbeats::silent(SteadyClock::time_point now) {
  const bool slept = now - last_look_ > limit_ / 2;
  last_look_ = now;
  std::vector<int> found;
  for (auto& [rank, peer] : peers_) {
    if (peer.heard || slept) peer.last = now;
    peer.heard = false;
    // A peer that has never been heard may still be forming its epoch.
    if (peer.known && now - peer.last >= limit_) found.push_back(rank);
  }
  for (const int rank : found) peers_.erase(rank);  // each is named once
  return found;
}

}  // namespace rueda::core
