#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/diagnosis/timeline_writer.h"
#include "runtime/engine/clock_shift.h"
#include "runtime/engine/lane.h"
#include "runtime/engine/timeline_frames.h"
#include "runtime/engine/worker.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// What this rank records for a timeline, and where that goes: to its own file, or to rank 0, which writes one for all.
///
///     things happen ─▶ records in memory ─┬─ this rank writes ──────▶ worker ─▶ file
///                                         └─ a turn takes them ─▶ frame ─▶ rank 0's worker
///
/// While nothing is recorded each of these costs one load.
class Timeline {
 public:
  /// `shares_clock`: rank 0 runs on this host. `ring` wakes whoever runs the next turn.
  Timeline(const EpochPlan& plan, bool shares_clock, std::function<const char*(uint8_t)> algorithm_name,
           std::function<void()> ring);

  /// Any thread. `path` with a {rank} in it: this rank records for itself. Else rank 0 has all ranks record, and on
  /// others nothing happens. kInvalidArgument: one is being written; kSystem: the file cannot be made.
  Status start(const std::string& path, bool mark_rounds) RUEDA_EXCLUDES(mutex_);
  /// Any thread. Ends what `start` of this rank began, with all that ranks have recorded by now, as far as it comes
  /// before `deadline`. Nothing where nothing was begun. kSystem: the file could not be written; kTimeout: its disk
  /// takes longer, and what is still to be written is as far as the process lives.
  Status stop(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// This rank is about to say goodbye: `stop`, or its last records go to rank 0.
  void leave(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// The epoch is over: nobody waits for other ranks any more.
  void abandon_others() RUEDA_EXCLUDES(mutex_);
  /// Once a second, so that what is recorded is not much older in the file. The coordinator thread.
  void tick() RUEDA_EXCLUDES(mutex_);

  /// Recording; whoever does what is recorded.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void agreed(const Batch& batch) RUEDA_EXCLUDES(mutex_);
  /// What was agreed while it recorded is recorded to its end, also where others have stopped since.
  void finished(const Batch& batch, SteadyClock::time_point now) RUEDA_EXCLUDES(mutex_);
  void failed(const Batch& batch) RUEDA_EXCLUDES(mutex_);

  /// Bytes of records that are kept in memory.
  size_t held() RUEDA_EXCLUDES(mutex_);

  /// The baton's holder, with a turn.
  bool frames_waiting() const { return due_.load(); }
  /// A frame of rank 0's for all others.
  std::optional<TimelineSwitch> take_switch() RUEDA_EXCLUDES(mutex_);
  /// Frames of another rank's for rank 0.
  std::optional<SteadyClock::time_point> take_clock_ask() RUEDA_EXCLUDES(mutex_);
  std::optional<TimelinePiece> take_piece() RUEDA_EXCLUDES(mutex_);
  void switched(const TimelineSwitch& frame) RUEDA_EXCLUDES(mutex_);
  void clock_answered(const ClockAnswer& answer) RUEDA_EXCLUDES(mutex_);
  void received(int rank, TimelinePiece piece) RUEDA_EXCLUDES(mutex_);
  /// `rank` has said goodbye: nothing more comes from it.
  void left(int rank) RUEDA_EXCLUDES(mutex_);
  /// After that no thread of this is left but one that a disk holds, which uses nothing of this. The engine's owner.
  void end();

 private:
  /// The file and what is on its way there: the worker's, which may outlive the timeline.
  struct Scribe {
    std::unique_ptr<TimelineWriter> writer;  ///< the worker's thread
    std::atomic<size_t> queued{0};           ///< bytes on their way to the worker
    Mutex mutex;
    Condition changed;
    bool closed RUEDA_GUARDED_BY(mutex) = false;
    Status failure RUEDA_GUARDED_BY(mutex);
  };
  static Status await_closed(Scribe& scribe, Deadline deadline);
  bool follows() const { return on() || draining_.load(std::memory_order_relaxed); }
  bool close(const Batch& batch) RUEDA_REQUIRES(mutex_);
  void look_drained() RUEDA_REQUIRES(mutex_);
  bool may_append(uint64_t records) RUEDA_REQUIRES(mutex_);
  void appended() RUEDA_REQUIRES(mutex_);
  void flush() RUEDA_REQUIRES(mutex_);
  void write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift) RUEDA_REQUIRES(mutex_);
  bool all_ended() const RUEDA_REQUIRES(mutex_);
  void look_due() RUEDA_REQUIRES(mutex_);
  std::chrono::nanoseconds own_shift() const RUEDA_REQUIRES(mutex_);

  const EpochPlan& plan_;
  const bool shares_clock_;
  const std::function<const char*(uint8_t)> algorithm_name_;
  const std::function<void()> ring_;
  std::atomic<bool> on_{false};
  std::atomic<bool> draining_{false};  ///< nothing new is recorded, and some of what began has not ended
  std::atomic<bool> due_{false};       ///< a turn has something to send

  Mutex mutex_;
  Condition changed_;  ///< `ended_`
  WireWriter records_ RUEDA_GUARDED_BY(mutex_);
  std::set<SetId> told_sets_ RUEDA_GUARDED_BY(mutex_);                  ///< in this recording: what they are called
  std::set<std::pair<SetId, uint64_t>> open_ RUEDA_GUARDED_BY(mutex_);  ///< batches: set and number
  uint64_t lost_ RUEDA_GUARDED_BY(mutex_) = 0;
  bool mark_rounds_ RUEDA_GUARDED_BY(mutex_) = false;
  bool last_wanted_ RUEDA_GUARDED_BY(mutex_) = false;  ///< the next piece is the last
  bool piece_wanted_ RUEDA_GUARDED_BY(mutex_) = false;
  bool ask_wanted_ RUEDA_GUARDED_BY(mutex_) = false;
  int asks_left_ RUEDA_GUARDED_BY(mutex_) = 0;
  ClockShift clock_ RUEDA_GUARDED_BY(mutex_);
  std::optional<TimelineSwitch> switch_ RUEDA_GUARDED_BY(mutex_);
  std::string path_ RUEDA_GUARDED_BY(mutex_);  ///< empty: this rank writes none
  bool for_all_ RUEDA_GUARDED_BY(mutex_) = false;
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  bool alone_ RUEDA_GUARDED_BY(mutex_) = false;       ///< see abandon_others
  std::vector<char> ended_ RUEDA_GUARDED_BY(mutex_);  ///< by rank: its last piece has come
  std::vector<char> left_ RUEDA_GUARDED_BY(mutex_);
  std::shared_ptr<Scribe> scribe_ RUEDA_GUARDED_BY(mutex_) = std::make_shared<Scribe>();  ///< a new one with `start`
  Worker worker_;
};

}  // namespace rueda::core
