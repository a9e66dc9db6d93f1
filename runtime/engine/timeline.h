#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/lane.h"
#include "runtime/engine/timeline_frames.h"
#include "runtime/engine/timeline_protocol.h"
#include "runtime/engine/timeline_recorder.h"
#include "runtime/engine/timeline_scribe.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// What this rank records for a timeline, and where that goes: to its own file, or to rank 0, which writes one for all.
/// The engine owns it. It joins three parts under one mutex, and each step moves them together:
///
///     what happens ─▶ recorder: records ─┬─ this rank writes ──▶ scribe: its thread ─▶ file
///     (any thread)                       └─ protocol: a turn takes them (baton's holder) ─▶ frame ─▶ rank 0's scribe
///
/// While nothing is recorded each of the calls on the way of an operation costs one load.
class Timeline {
 public:
  /// `plan` outlives it. `shares_clock`: rank 0 runs on this host. `ring` wakes the thread that runs the next turn; it
  /// is called with the mutex held and must not block.
  Timeline(const EpochPlan& plan, bool shares_clock, std::function<const char*(uint8_t)> algorithm_name,
           std::function<void()> ring);

  /// Any thread. If `path` has a {rank} in it, this rank records for itself. Else rank 0 has all ranks record, and on
  /// others nothing happens. Returns kInvalidArgument if a timeline is being written already, kSystem if the file
  /// cannot be made.
  Status start(const std::string& path, bool mark_rounds) RUEDA_EXCLUDES(mutex_);
  /// Any thread; blocks. Ends what `start` of this rank began, with all that ranks have recorded by now, as far as it
  /// comes before `deadline`. Does nothing if nothing was begun. Returns kSystem if the file could not be written, and
  /// kTimeout if its disk takes longer: the rest is then written if the process lives long enough.
  Status stop(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// This rank is about to say goodbye: stops, or has its last records go to rank 0. The engine's owner; blocks.
  void leave(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// The epoch is over: no thread waits for other ranks any more. Any thread.
  void abandon_others() RUEDA_EXCLUDES(mutex_);
  /// Once a second, so that what is recorded is not much older in the file. The coordinator thread.
  void tick() RUEDA_EXCLUDES(mutex_);
  /// Bytes of records that are kept in memory. Any thread.
  size_t held() RUEDA_EXCLUDES(mutex_);
  /// Ends the scribe's thread. The engine's owner, after everything that records.
  void end() { scribe_.end(); }

  /// Whether this rank records. Any thread.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// The baton's holder, with a batch's verdict, if `on`.
  void agreed(const Batch& batch) RUEDA_EXCLUDES(mutex_);
  /// The thread that ran the batch's last step. What was agreed while this rank recorded is recorded to its end, also
  /// if the recording has been switched off since.
  void finished(const Batch& batch, SteadyClock::time_point now) RUEDA_EXCLUDES(mutex_);
  void failed(const Batch& batch) RUEDA_EXCLUDES(mutex_);

  // What a turn sends and receives.

  /// Whether a turn has something to send.
  bool frames_waiting() const { return due_.load(); }
  /// Rank 0: a frame for all others.
  std::optional<TimelineSwitch> take_switch() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// Another rank: frames for rank 0.
  std::optional<SteadyClock::time_point> take_clock_ask() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  std::optional<TimelinePiece> take_piece() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// Another rank: rank 0 has sent this.
  void switched(const TimelineSwitch& frame) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  void clock_answered(const ClockAnswer& answer) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// Rank 0: `rank` has sent this.
  void received(int rank, TimelinePiece piece) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// `rank` has said goodbye: nothing more comes from it.
  void left(int rank) RUEDA_EXCLUDES(mutex_);

 private:
  bool follows() const { return on() || draining_.load(std::memory_order_relaxed); }
  void look_drained() RUEDA_REQUIRES(mutex_);
  void look_full() RUEDA_REQUIRES(mutex_);
  void flush() RUEDA_REQUIRES(mutex_);
  void write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift) RUEDA_REQUIRES(mutex_);
  void look_due() RUEDA_REQUIRES(mutex_);
  bool writes() const RUEDA_REQUIRES(mutex_) { return !path_.empty(); }

  const EpochPlan& plan_;
  const std::function<const char*(uint8_t)> algorithm_name_;
  const std::function<void()> ring_;
  std::atomic<bool> on_{false};
  std::atomic<bool> draining_{false};  ///< nothing new is recorded, and some of what began has not ended
  std::atomic<bool> due_{false};       ///< a turn has something to send

  Mutex mutex_;
  Condition changed_;  ///< another rank has ended or left, or the draining is over
  TimelineRecorder recorder_ RUEDA_GUARDED_BY(mutex_);
  TimelineProtocol protocol_ RUEDA_GUARDED_BY(mutex_);
  TimelineScribe scribe_;                      ///< its header says what needs the mutex
  std::string path_ RUEDA_GUARDED_BY(mutex_);  ///< empty if this rank writes no file
  bool for_all_ RUEDA_GUARDED_BY(mutex_) = false;
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  bool alone_ RUEDA_GUARDED_BY(mutex_) = false;  ///< see abandon_others
};

}  // namespace rueda::core
