// How a lane waits for shared memory, for channels, or for both at once. Every wait spins first: most answers come
// within the budget, and a sleep costs both sides a system call.
//
//   shared memory   spin, then sleep on the bell                          (in the header, without a virtual call)
//   channels        spin over poll, then sleep in the event loop
//   both            spin over both, then sleep in the event loop; the bridge turns a ring of the bell into a wake
#include "runtime/net/mesh.h"

#include <algorithm>
#include <utility>

namespace rueda::core {

Mesh::Mesh(int rank, int lane, std::vector<std::shared_ptr<Segment>> segments, std::unique_ptr<ChannelSet> channels,
           const Abort& abort, WaitStyle style)
    : rank_(rank),
      lane_(lane),
      segments_(std::move(segments)),
      channels_(std::move(channels)),
      abort_(abort),
      style_(style),
      distances_(static_cast<int>(segments_.size())) {}

Status Mesh::move_channels_while_waiting() {
  if (bridge_ != nullptr || channels_ == nullptr) return {};
  auto bridge = std::make_unique<BellBridge>(words(rank_).bell, [channels = channels_.get()] { channels->wake(); });
  RUEDA_RETURN_IF_ERROR(bridge->start());
  bridge_ = std::move(bridge);
  return {};
}

Status Mesh::until_moved(const std::function<bool()>& ready, Deadline deadline) {
  const auto look = [&] {
    channels_->poll();
    return ready();
  };
  if (channels_->moves_in_poll() && !abort_.raised() && spin(style_, spin_, look)) return {};
  return channels_->until(ready, deadline);
}

Status Mesh::until_either(const std::function<bool()>& ready, Deadline deadline) {
  const auto look = [&] {
    channels_->poll();
    return ready() || abort_.raised();
  };
  if (spin(style_, spin_, look)) return abort_.raised() ? abort_.why() : Status();
  // The steps of bell_steps::sleep with the event loop in place of the futex: read the count, say "asleep", look again.
  // A ring between the read and the look changes the count, which the loop's condition sees.
  FutexBell bell(words(rank_).bell);
  for (bool done = false; !done;) {
    const uint32_t seen = bell.count();
    bell.store_asleep(1);
    bridge_->arm(seen);
    const Status status = channels_->until([&] { return (done = ready()) || bell.count() != seen; }, deadline);
    bridge_->disarm();
    bell.store_asleep(0);
    RUEDA_RETURN_IF_ERROR(status);
  }
  return {};
}

void Mesh::refresh_distance(std::span<const int> members, uint64_t first_stamp, uint64_t bytes,
                            const PingPongPlan& plan) {
  // Every member computes the same pairs from the stamp, so partners meet without a message.
  if (Distances::due(first_stamp, bytes)) {
    const auto own = std::find(members.begin(), members.end(), rank_) - members.begin();
    const int partner = Distances::partner(static_cast<int>(own), static_cast<int>(members.size()), first_stamp);
    if (partner >= 0) {
      const int peer = members[static_cast<size_t>(partner)];
      const PingPongSide side = rank_ < peer ? PingPongSide::kFirst : PingPongSide::kSecond;
      distances_.note(peer, line_round_trip(words(rank_).ping, words(peer).ping, first_stamp, side, plan));
    }
  }
  distance_ = distances_.farthest(members, rank_);
}

}  // namespace rueda::core
