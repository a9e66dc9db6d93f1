#pragma once
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/fast_mutex.h"
#include "runtime/engine/absent_input.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

class LaneCores;
struct TeamState;

/// A verdict's batch as this rank runs it. Owned by its lane from submission until finished.
struct Batch {
  SetId set = kGlobalSet;
  uint64_t number = 0;
  std::shared_ptr<TeamState> team;  ///< also when the set has been removed meanwhile
  Call call;                        ///< `slices` points into `storage`
  std::vector<Slice> storage;
  std::vector<TensorPart*> tensors;           ///< in the verdict's order
  std::vector<size_t> slots;                  ///< by tensor: the index of its slice in `storage`
  std::unique_ptr<const AbsentInput> absent;  ///< memory of the other slices, if this rank has joined
  std::unique_ptr<Arrivals> arrivals;
  std::unique_ptr<DeviceCall> device;  ///< null for host memory
  TimeLimit limit;                     ///< from its start to its end
  Status failure;                      ///< why it failed, if it did so while a device still works on it
  bool inline_algorithm = false;       ///< may run inside a turn
  bool at_once = false;                ///< no other batch ran, or was waiting, when it was agreed
  bool started = false;
  StepState step;
  Distance distance = Distance::kUnknown;  ///< of the team's cores, at the batch's end
  SteadyClock::time_point agreed;          ///< set by the recorder, as is `begun`
  SteadyClock::time_point begun;
  PhaseLog phases;  ///< used while a timeline is recorded
};

/// What a lane tells its engine, on the thread that runs the batch: the lane's, or the baton's holder. No lock is held.
/// `batch_finished` may free the operations of the batch.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  virtual void batch_started(Batch& batch) = 0;
  /// A device has the rest of the batch, and its mark is in `batch->device->finished`. If `batch->failure` is not ok,
  /// the epoch is over or about to be, and the rest is what the device still does with the tensors. `batch_finished`
  /// follows, on another thread. The lane has let go of it.
  virtual void batch_launched(std::unique_ptr<Batch> batch) = 0;
  /// If `result` is not ok, the epoch is over or about to be.
  virtual void batch_finished(Batch& batch, const Status& result) = 0;
};

/// A FIFO of batches, the mesh that runs them and, from the first batch that needs it, a thread. `Lanes` owns it. The
/// mesh belongs to the holder of the lane's token: the lane's thread while it runs a batch, or the turn while it steps
/// an inline batch, which it may only begin when nothing is queued before it. So batches run in the order of
/// submission, on either thread.
class Lane {
 public:
  /// How the lane's thread is set up when it starts: its name, and the cores it stays on (all if empty). If `follows`
  /// is not null it outlives the lane, and the thread goes to its core before each batch.
  struct ThreadSetup {
    std::string name;
    std::vector<int> cores;
    const LaneCores* follows = nullptr;
  };
  /// `executor` and `observer` outlive the lane.
  Lane(std::unique_ptr<Mesh> mesh, Executor& executor, LaneObserver& observer, ThreadSetup setup);
  ~Lane() { stop(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Queues a batch, or makes it the turn's inline batch. If it throws for lack of memory, and `batch` is not null, the
  /// batch stays the caller's.
  void submit(std::unique_ptr<Batch>&& batch) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// See `Executor::show_early`. Does nothing if a batch is queued or runs.
  void show_early(const Call& call) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// Takes back what was shown for the batch with this stamp, whether the lane is idle or not. No rank takes it
  /// meanwhile: its operation has failed, and this rank has yet to propose the tensor again.
  void hide_early(uint64_t stamp) RUEDA_ON(baton_holder);
  /// Moves the turn's inline batch on; true if it finished.
  bool step_inline() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  bool has_inline() const RUEDA_ON(baton_holder) { return inline_ != nullptr; }
  /// Gives an unfinished inline batch, with the token, to the thread: before the baton is put down.
  void hand_over() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// Whether nothing is queued and nothing runs. Any thread; the answer may be old at once.
  bool idle() const RUEDA_EXCLUDES(mutex_);
  /// Whether this batch runs now.
  bool runs(SetId set, uint64_t number) const RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);
  /// See `Mesh::awaited`, of the batch that runs. Any thread.
  int awaited() const { return mesh_->awaited(); }
  /// Blocks until idle; returns false at the deadline. Any thread.
  bool drain(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// Wakes the thread out of whatever wait it is in, after the epoch's abort was raised. Any thread.
  void wake();
  /// Runs what is queued, then ends the thread. The engine's owner.
  void stop() RUEDA_EXCLUDES(mutex_);

 private:
  void run() RUEDA_EXCLUDES(mutex_);
  void tell(std::unique_ptr<Batch>& batch, const Status& result);
  Status execute_safely(Batch& batch);
  void let_go(const Status& result);
  Status execute(Batch& batch);
  Status run_steps(Batch& batch, Deadline deadline);
  void look_at_queue() RUEDA_EXCLUDES(mutex_);
  std::unique_ptr<Batch> take_first() RUEDA_EXCLUDES(mutex_);

  const std::unique_ptr<Mesh> mesh_;
  Executor& executor_;
  LaneObserver& observer_;
  const ThreadSetup setup_;
  CoreVisit place_;  ///< of the thread, and used by it alone
  std::unique_ptr<Batch> inline_ RUEDA_GUARDED_BY(baton_holder);

  mutable FastMutex mutex_;
  mutable Condition changed_;
  std::deque<std::unique_ptr<Batch>> queue_ RUEDA_GUARDED_BY(mutex_);
  bool token_taken_ RUEDA_GUARDED_BY(mutex_) = false;
  std::pair<SetId, uint64_t> on_thread_ RUEDA_GUARDED_BY(mutex_);  ///< set and number of what the thread runs, or ran
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rueda::core
