#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine/finisher.h"
#include "runtime/engine/lane.h"

namespace rueda::core {

/// What a batch's lane is chosen by: where its tensors lie.
enum class LaneUse { kHostMemory, kDevices };

/// The lanes of an engine, made at first use, and the finisher of what they launch on devices. In host memory a set is
/// bound to lane (set id mod number of lanes). All batches on devices, of every set, run on the last lane: so they are
/// launched by one thread, in the order that all ranks share. The engine owns them.
class Lanes {
 public:
  /// `make` builds a lane; the baton's holder calls it. The rest as in Finisher.
  Lanes(int count, std::function<std::unique_ptr<Lane>(int lane)> make, const Abort& abort, Finisher::Finish finish,
        Finisher::Look look);

  /// The set's lane, which lives until `clear`.
  Lane& of(SetId set, LaneUse use) RUEDA_ON(baton_holder);
  Finisher& finisher() { return finisher_; }
  /// Moves every inline batch on; true if one finished.
  bool step_inline() RUEDA_ON(baton_holder);
  bool has_inline() const RUEDA_ON(baton_holder);
  /// See `Lane::hand_over`.
  void hand_over() RUEDA_ON(baton_holder);
  /// See `Lane::runs`. A batch that a device has not finished runs too.
  bool runs(SetId set, uint64_t number) const RUEDA_ON(baton_holder);
  /// Which memory a running batch uses, the host's or a device's; see `runs`.
  LaneUse use_of(SetId set, uint64_t number) const RUEDA_ON(baton_holder);
  /// See `Lane::awaited`, of the set's lane. Any thread.
  int awaited(SetId set, LaneUse use) const;
  /// See `Lane::wake` and `Finisher::wake`. Any thread.
  void wake_all();
  /// Whether nothing is queued and nothing runs, in any lane and on any device. Any thread.
  bool idle() const;
  /// Waits until all is idle. Returns false at the deadline. Any thread.
  bool drain(Deadline deadline);
  /// Runs what is queued and ends the threads. The engine's owner, with the baton taken for good.
  void stop() RUEDA_ON(baton_holder);
  /// Frees stopped lanes. The engine's owner, when no other thread uses them any more.
  void clear() RUEDA_ON(baton_holder);

 private:
  size_t number_of(SetId set, LaneUse use) const {
    return use == LaneUse::kDevices ? lanes_.size() - 1 : set % lanes_.size();
  }
  std::function<std::unique_ptr<Lane>(int)> make_;
  std::vector<std::unique_ptr<Lane>> owned_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<std::atomic<Lane*>> lanes_;  ///< null until made; any thread
  Finisher finisher_;
};

}  // namespace rueda::core
