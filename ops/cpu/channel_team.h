#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// A channel as one batch uses it: marks say how far a queue must have moved, counted from the batch's start. A value;
/// lane thread; lives as long as the batch.
class PeerStream {
 public:
  PeerStream() = default;
  /// The stream to `rank`. While something has not moved, the lane of `mesh` counts as waiting for that rank.
  PeerStream(Channel& channel, Mesh& mesh, int rank)
      : channel_(&channel), mesh_(&mesh), rank_(rank), send_mark_(channel.sent()), receive_mark_(channel.received()) {}
  /// Queues `bytes` and returns a mark. The caller leaves them unchanged until `sent(mark)` is true.
  uint64_t send(std::span<const std::byte> bytes) {
    channel_->send(bytes);
    return send_mark_ += bytes.size();
  }
  uint64_t receive(std::span<std::byte> bytes) {
    channel_->receive(bytes);
    return receive_mark_ += bytes.size();
  }
  bool sent(uint64_t mark) const { return noted(channel_->sent() >= mark); }
  bool received(uint64_t mark) const { return noted(channel_->received() >= mark); }
  /// Whether everything queued so far has moved.
  bool idle() const { return sent(send_mark_) && received(receive_mark_); }

 private:
  bool noted(bool moved) const {
    if (!moved) mesh_->waits_for(rank_);
    return moved;
  }

  Channel* channel_ = nullptr;
  Mesh* mesh_ = nullptr;
  int rank_ = Mesh::kNobody;
  uint64_t send_mark_ = 0;
  uint64_t receive_mark_ = 0;
};

/// The team of a batch over the lane's channels; members are named by their index in the team. Used by the lane thread.
class ChannelTeam {
 public:
  ChannelTeam(const Call& call, Mesh& mesh, Deadline deadline)
      : team_(*call.team),
        mesh_(mesh),
        deadline_(deadline),
        brief_(static_cast<size_t>(call.count) * size_of(call.dtype) <= kBriefBytes),
        streams_(team_.ranks.size()) {}

  int size() const { return team_.size(); }
  int index() const { return team_.index; }
  /// The member `steps` positions further round the ring; before it if negative.
  int neighbour(int steps) const { return ((index() + steps) % size() + size()) % size(); }
  /// Connects to `member` on first use in the epoch; blocks until then. Returns kUnsupported if the lane has no
  /// channels, else fails as `ChannelSet::to` does.
  Status connect(int member) {
    if (!mesh_.has_channels()) return Status(Code::kUnsupported, "this lane has no channels to other ranks");
    const int rank = team_.ranks[static_cast<size_t>(member)];
    mesh_.waits_for(rank);
    const auto channel = mesh_.channels().to(rank, deadline_);
    if (!channel.ok()) return channel.status();
    mesh_.waits_for(Mesh::kNobody);
    streams_[static_cast<size_t>(member)] = PeerStream(*channel.value(), mesh_, rank);
    return {};
  }
  Status connect_all() {
    for (int member = 0; member < size(); ++member) {
      if (member != index()) RUEDA_RETURN_IF_ERROR(connect(member));
    }
    return {};
  }
  /// The stream to a member; connected before.
  PeerStream& peer(int member) { return streams_[static_cast<size_t>(member)]; }
  /// Whether `holds(peer)` for every other member; all connected.
  template <typename Holds>
  bool all_peers(Holds&& holds) {
    for (int member = 0; member < size(); ++member) {
      if (member != index() && !holds(peer(member))) return false;
    }
    return true;
  }
  /// Whether every other member's channel has passed its mark, by member.
  bool all_sent(std::span<const uint64_t> marks) {
    for (int m = 0; m < size(); ++m) {
      if (m != index() && !peer(m).sent(marks[static_cast<size_t>(m)])) return false;
    }
    return true;
  }
  bool all_received(std::span<const uint64_t> marks) {
    for (int m = 0; m < size(); ++m) {
      if (m != index() && !peer(m).received(marks[static_cast<size_t>(m)])) return false;
    }
    return true;
  }
  /// Moves bytes until `ready()`; as `ChannelSet::until`.
  Status until(const std::function<bool()>& ready) {
    const PhaseScope moving(mesh_.phases(), WorkPhase::kTransfer);
    Status status = brief_ ? mesh_.until_moved(ready, deadline_) : mesh_.channels().until(ready, deadline_);
    if (status.ok()) mesh_.waits_for(Mesh::kNobody);
    return status;
  }

 private:
  /// Batches up to this size take about as long as a wake-up does: a spin is worth it.
  static constexpr size_t kBriefBytes = 256 << 10;

  const Team& team_;
  Mesh& mesh_;
  Deadline deadline_;
  const bool brief_;
  std::vector<PeerStream> streams_;
};

/// Memory of one batch, not initialised.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
  std::byte* at(size_t offset) const { return bytes_.get() + offset; }
  std::span<std::byte> part(size_t offset, size_t length) const { return {at(offset), length}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace rueda::core
