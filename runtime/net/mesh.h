#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/base/deadline.h"
#include "runtime/base/phase_log.h"
#include "runtime/net/bell_bridge.h"
#include "runtime/net/channel.h"
#include "runtime/net/distance.h"
#include "runtime/net/doorbell.h"
#include "runtime/net/segment.h"
#include "runtime/net/slot_ledger.h"
#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// What one lane moves data with: the shared-memory areas of the local ranks, and channels to every rank. The lane owns
/// it, the holder of the lane's token uses it. Lives as long as the epoch.
class Mesh {
 public:
  /// Values of `awaited` that are not a rank: the lane waits for no rank, or for ranks that only a library knows; or
  /// the batch is launched, and its device has not finished it.
  static constexpr int kNobody = -1;
  static constexpr int kOthers = -2;
  static constexpr int kDevice = -3;

  /// `segments[r]` is rank r's segment, own rank included; null if r is on another host. `channels` may be null if no
  /// algorithm needs them. `abort` outlives the mesh.
  Mesh(int rank, int lane, std::vector<std::shared_ptr<Segment>> segments, std::unique_ptr<ChannelSet> channels,
       const Abort& abort, WaitStyle style);
  /// `arenas[r]` is for rank r's tensors; null if this rank cannot reach them. Before the first batch.
  void use_arenas(std::vector<std::shared_ptr<TensorArena>> arenas) { arenas_ = std::move(arenas); }
  /// Returns null if there is none that this rank can reach.
  TensorArena* arena(int rank) const {
    const auto index = static_cast<size_t>(rank);
    return index < arenas_.size() ? arenas_[index].get() : nullptr;
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(segments_.size()); }
  int lane() const { return lane_; }
  bool local(int rank) const { return segments_[static_cast<size_t>(rank)] != nullptr; }
  /// Only for local ranks.
  LaneWords& words(int rank) const { return segments_[static_cast<size_t>(rank)]->lane(lane_); }
  std::byte* input(int rank, int slot) const { return segments_[static_cast<size_t>(rank)]->input(lane_, slot); }
  std::byte* result(int rank, int slot) const { return segments_[static_cast<size_t>(rank)]->result(lane_, slot); }
  const SegmentLayout& layout() const { return segments_[static_cast<size_t>(rank_)]->layout(); }
  ChannelSet& channels() { return *channels_; }
  bool has_channels() const { return channels_ != nullptr; }
  const Abort& abort() const { return abort_; }
  WaitStyle wait_style() const { return style_; }
  /// How long waits spin from now on before they sleep. The holder of the lane's token calls it before a batch.
  void spin_for(std::chrono::microseconds budget) { spin_ = budget; }

  /// Waits on shared memory until `ready()`: a bounded spin, then the lane's own doorbell. Returns the abort reason if
  /// the epoch ends, kTimeout at the deadline; after `move_channels_while_waiting` also the failures of
  /// `ChannelSet::until`.
  template <typename Ready>
  Status until(Ready&& ready, Deadline deadline) {
    Status status = until_ready(ready, deadline);
    if (status.ok()) waits_for(kNobody);
    return status;
  }
  /// Records that the batch waits for `rank`, or kNobody once it waits no longer. A diagnosis of a slow batch reads it;
  /// a failed wait leaves its rank there. The holder of the lane's token calls it.
  void waits_for(int rank) { awaited_.store(rank, std::memory_order_relaxed); }
  /// The rank the lane waits for now. Any thread; the answer may be outdated at once.
  int awaited() const { return awaited_.load(std::memory_order_relaxed); }
  /// Moves channel bytes until `ready()`: a bounded spin, then `ChannelSet::until`, with its errors.
  Status until_moved(const std::function<bool()>& ready, Deadline deadline);
  /// From now on `until` moves channel bytes as well and sleeps so that both can wake it. For algorithms that use both:
  /// a peer may need our bytes before it can do what we wait for. Does nothing on a lane without channels.
  /// Returns kSystem if the system gives no thread for it.
  Status move_channels_while_waiting();
  /// Notes waits in `phases` from now on; null ends it.
  void note_waits(PhaseLog* phases) { phases_ = phases; }
  PhaseLog* phases() const { return phases_; }
  /// Wakes `rank` if it sleeps. The caller has stored a word that `rank` may wait for.
  void ring(int rank) const { core::ring(words(rank).bell); }

  /// All `members` of a batch over shared memory (ranks, ascending, all local, own included) call it once at its start.
  /// Measures the distance to one of them if the batch is due for it by its `bytes`, which takes at most the plan's
  /// budget, and sets `distance`. A member that gives other bytes than its partner may measure in vain.
  void refresh_distance(std::span<const int> members, uint64_t first_stamp, uint64_t bytes,
                        const PingPongPlan& plan = kQuickPingPong);
  /// The distance of the farthest member at the last refresh: kFar if any is far, else kUnknown if any is unknown.
  Distance distance() const { return distance_; }
  /// For tests and measurements; holds until the next refresh.
  void set_distance(Distance distance) { distance_ = distance; }

  /// Records which shared areas of this rank peers may still be reading.
  SlotLedger& ledger() { return ledger_; }

 private:
  template <typename Ready>
  Status until_ready(Ready&& ready, Deadline deadline) {
    if (phases_ != nullptr && ready() && !abort_.raised()) return {};
    const PhaseScope waiting(phases_, WorkPhase::kWait);
    if (bridge_ != nullptr) return until_either(ready, deadline);
    const bool done =
        spin_then_sleep(words(rank_).bell, style_, spin_, deadline, [&] { return ready() || abort_.raised(); });
    if (abort_.raised()) return abort_.why();
    if (!done) return Status(Code::kTimeout, "rank " + std::to_string(rank_) + ": deadline passed in shared memory");
    return {};
  }
  Status until_either(const std::function<bool()>& ready, Deadline deadline);

  int rank_;
  int lane_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<std::shared_ptr<TensorArena>> arenas_;
  std::unique_ptr<ChannelSet> channels_;
  const Abort& abort_;
  WaitStyle style_;
  std::chrono::microseconds spin_ = kSpinBudget;
  Distances distances_;
  Distance distance_ = Distance::kUnknown;
  SlotLedger ledger_;
  PhaseLog* phases_ = nullptr;
  std::atomic<int> awaited_{kNobody};
  std::unique_ptr<BellBridge> bridge_;  ///< last, so destroyed first: it wakes the channels
};

}  // namespace rueda::core
