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

void Mesh::refresh_distance(std::span<const int> members, uint64_t first_stamp, const ProbePlan& plan) {
  if (Distances::due(first_stamp)) {
    const auto own = std::find(members.begin(), members.end(), rank_) - members.begin();
    const int partner = Distances::partner(static_cast<int>(own), static_cast<int>(members.size()), first_stamp);
    if (partner >= 0) {
      const int peer = members[static_cast<size_t>(partner)];
      const ProbeSide side = rank_ < peer ? ProbeSide::kFirst : ProbeSide::kSecond;
      distances_.note(peer, line_round_trip(words(rank_).probe, words(peer).probe, first_stamp, side, plan));
    }
  }
  distance_ = distances_.farthest(members, rank_);
}

}  // namespace rueda::core
