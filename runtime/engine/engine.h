#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/diagnosis/dump.h"
#include "runtime/engine/activity.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/completer.h"
#include "runtime/engine/coordinator.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/dump_source.h"
#include "runtime/engine/faults.h"
#include "runtime/engine/heart.h"
#include "runtime/engine/lane_cores.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/names_in_flight.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/process_sets.h"
#include "runtime/engine/rank_spread.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/task_thread.h"
#include "runtime/engine/teams.h"
#include "runtime/engine/timeline.h"
#include "runtime/engine/trial_times.h"
#include "runtime/engine/tuning.h"
#include "runtime/engine/turn.h"
#include "runtime/engine/verdict_source.h"
#include "runtime/net/http_page.h"
#include "runtime/rendezvous/form.h"

namespace rueda::core {

/// Whether threads may be inside an engine's functions while it shuts down.
enum class OtherCalls { kHaveEnded, kMayRun };

/// One rank in one epoch: takes operations, agrees on them with the other ranks, runs them, completes them. Made from a
/// `Formation`, used from any thread, ended by `shutdown` once. Operations keep it alive, inert, after that.
///
/// Its threads, and what each owns:
///
///     callers           the inbox's producers; each waits on its own operation and may take the baton meanwhile
///     baton's holder    agreement, links and inline batches (`Turn`, `Lanes`): one thread at a time, any of these
///     coordinator       one thread, always there: the transport's loop, time limits, evidence (`Coordinator`)
///     lane threads      one for each lane that needs it: the lane's mesh while a batch runs there (`Lane`)
///     finisher          batches that a device has still to finish, if there is one (`Finisher`)
///     helpers           callbacks (`Completer`), questions to the program (`Activity`), disks (`TaskThread`,
///     `Timeline`)
class Engine : public std::enable_shared_from_this<Engine>,
               private LaneObserver,
               private TurnObserver,
               private CoordinatorTasks {
 public:
  /// Starts the coordinator thread. `verdicts` may be null, then rank 0 judges deaths; so may `dumps`, then no launcher
  /// asks for flight records. Returns kSystem if the system gives no thread; the other ranks have been told why then.
  static Result<std::shared_ptr<Engine>> start(Formation formation, std::unique_ptr<Executor> executor,
                                               std::unique_ptr<VerdictSource> verdicts,
                                               std::unique_ptr<DumpSource> dumps = nullptr);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EpochPlan& plan() const { return plan_; }
  /// Ok while operations are taken, else the reason why not.
  Status status() const { return inbox_.closed(); }

  /// Gives a number to a name that comes again (see `NamesInFlight`). Returns kInvalidArgument if the name is empty or
  /// too long for the wire.
  Result<uint32_t> intern(std::string_view name);
  /// The name of `number`; empty if there is none.
  std::string_view interned(int64_t number) const { return names_.text(number); }
  /// Gives the names that were interned in the engine before this one the same numbers, since programs keep these. To
  /// be called before the first operation.
  void take_names(const Engine& before) { names_.copy_from(before.names_); }

  /// Enqueues; never waits for a peer. If it fails, nothing was enqueued. Returns kInvalidArgument if a name
  /// is already in flight or the process set refuses the operation, and the session's end (kShutDown, kPeerLost, ...)
  /// if there is one. If the operation's `more` is set this wakes no thread: the next look takes it, at the latest the
  /// coordinator's next tick.
  Status submit(const std::shared_ptr<Operation>& operation);
  /// Enqueues and waits, the shortest way for one small tensor. If `entered` is not ok, nothing was enqueued.
  Status submit_and_wait(const std::shared_ptr<Operation>& operation, Status& entered);
  /// Blocks until the operation has reached the stage and returns its status, or ok if it is not done yet; runs turns
  /// meanwhile if the settings allow that. With `operation.reached(stage)` false it returns kTimeout at the deadline,
  /// or kInterrupted after a signal handler has run: the operation is still in flight.
  Status wait(Operation& operation, Deadline deadline, Stage stage = Stage::kFinished);
  /// Blocks until the operation is launched, as `wait`, and makes `stream` wait for its outputs. The thread that may
  /// use the stream.
  Status wait_stream(Operation& operation, void* stream, Deadline deadline);
  /// Has a thread look at what was submitted with `more`. Any thread; never blocks.
  void look() {
    // The baton's own word does not count here: another thread may have shut the engine down.
    if (!inbox_.empty()) ring_coordinator();
  }
  /// Gets the borrowed memory back. If the operation is in no batch yet, it fails on all ranks; else this waits for the
  /// batch, and ends the epoch at the deadline. Returns the operation's status once it is done.
  Status abandon(const std::shared_ptr<Operation>& operation, Deadline deadline);
  /// Makes a process set and returns this rank's number for it at once. The number can be used at once: operations wait
  /// until all members have asked for the same ranks. Members match by `name`; if it is empty, by the ranks and the
  /// order in which they asked. Returns kInvalidArgument as `ProcessSets::add`, or the session's end.
  Result<SetId> add_process_set(std::vector<int> ranks, const std::string& name);
  /// The set in which `sender` sends to `receiver`. One of them is this rank, the other is not.
  Result<SetId> pair_set(int sender, int receiver) RUEDA_EXCLUDES(pairs_mutex_);
  /// Never blocks. Returns kInvalidArgument as `ProcessSets::remove`.
  Status remove_process_set(SetId number);
  /// See `ProcessSets::add_lost`.
  SetId add_lost_set(std::string why) { return sets_.add_lost(std::move(why)); }
  const ProcessSets& process_sets() const { return sets_; }
  /// For tensors that ranks of this host read in place; null if there are none. Any thread.
  const std::shared_ptr<TensorArena>& tensor_arena() const { return formation_.arena; }
  /// Whether the ranks of the set can use each other's arenas. Any thread.
  bool can_share(SetId set) const;
  /// What an operation of `engine` is made with; shares ownership of it. Any thread.
  static OperationHome operation_home(std::shared_ptr<Engine> engine);
  /// What this rank has done since the epoch began, as a JSON object (docs/guide/diagnosis.md).
  std::string stats();
  /// The flight record, with what the program says it is doing now. Blocks for `Activity::kPatience` at most.
  RankDump dump();
  /// See `Timeline::start` and `stop`.
  Status start_timeline(const std::string& path, bool mark_rounds) { return timeline_.start(path, mark_rounds); }
  Status stop_timeline(Deadline deadline) { return timeline_.stop(deadline); }
  /// Sets the function that says what the program does; an empty one clears it.
  void set_activity(Activity::Source source) { activity_.set(std::move(source)); }
  /// Takes no more operations, for this reason. What is in flight goes on. Never blocks.
  void refuse(const Status& why) { inbox_.close(why); }
  /// Ends the epoch on all ranks for this reason, unless it is over. Never blocks.
  void end_epoch(const Status& why) { epoch_over(why); }
  /// Says goodbye, lets lanes finish, fails the rest and frees threads and memory. Blocks until `deadline` or little
  /// more. The first call counts; a second returns at once. If other calls may run meanwhile, what they read stays
  /// until the engine is destroyed.
  void shutdown(Deadline deadline, OtherCalls others = OtherCalls::kHaveEnded);
  /// After `shutdown`: whether the goodbye had its position in the order and all that was agreed before it has run
  /// here.
  bool left_in_order() const { return left_in_order_.load(); }

 private:
  Engine(Formation formation, std::unique_ptr<Executor> executor, std::unique_ptr<VerdictSource> verdicts,
         std::unique_ptr<DumpSource> dumps);

  // LaneObserver
  void batch_started(Batch& batch) override;
  void batch_launched(std::unique_ptr<Batch> batch) override;
  void batch_finished(Batch& batch, const Status& result) override;
  // TurnObserver
  void tensor_finished(TensorPart& tensor, const Status& status) override;
  void rank_left(int rank) override;
  void link_lost(int rank, const Status& how) override;
  void asked(const Ask& ask) override RUEDA_ON(baton_holder);
  void answered(int rank, const Answer& answer) override RUEDA_ON(baton_holder);
  void heard_of_late(const LateBatch& batch) override RUEDA_ON(baton_holder);
  // TurnObserver and CoordinatorTasks. Any thread.
  void epoch_over(const Status& why) noexcept override;
  // CoordinatorTasks
  size_t run_turns() override RUEDA_ON(baton_holder);
  int caller_core() const override { return caller_core_.load(std::memory_order_relaxed); }
  void settle() override RUEDA_ATTRIBUTE(release_capability(baton_holder));
  Findings look_around(SteadyClock::time_point now) override RUEDA_ON(baton_holder);
  void step_failed(const std::exception& error) noexcept override;
  bool needed_by_none() override RUEDA_ON(baton_holder);
  void begin_to_leave(const Status& why) override;
  bool has_left() override RUEDA_ON(baton_holder);
  void record_error() override;
  void dump_for_signal() override;
  void dump_for_launcher(DumpSource& source, int64_t number) override;

  // engine_start.cc: how it comes up
  Status begin();
  AgreementConfig agreement_config() const;
  TuneFacts tune_facts() const;
  std::vector<std::unique_ptr<ControlLink>> make_links();
  Heartbeats make_heartbeats() const;
  void start_heart();
  std::unique_ptr<Lane> make_lane(int lane);
  // engine.cc and engine_batches.cc: from submission to completion
  void give_credit_back(TeamState& team);
  bool enter(const std::shared_ptr<Operation>& operation, Status& entered);
  bool hand_in(const std::shared_ptr<Operation>& operation, Status& entered);
  template <typename MakeChange>
  Status ask_for_set(SetId number, MakeChange&& change);
  bool worth_spinning(const Operation& operation) const;
  void note_time(const Batch& batch, SteadyClock::time_point now, const Status& result);
  void launch_all(const Batch& batch);
  void launch(TensorPart& tensor, const std::shared_ptr<const DeviceMark>& mark);
  bool end_tensor(TensorPart& tensor, const Status& status);
  void finish(std::span<TensorPart* const> last);
  // engine_turns.cc and drive.h: the baton
  template <typename Done, typename WorthIt>
  void drive(Done&& done, WorthIt&& worth_it, Deadline deadline = Deadline::never()) RUEDA_ON(baton_holder);
  bool run_turn() RUEDA_ON(baton_holder);
  void look(Findings& found, SteadyClock::time_point now) RUEDA_ON(baton_holder);
  Status own_failure(const std::exception& error) const noexcept;
  void ring_coordinator();
  void note_core();
  /// The same for input of the coordinator's own, which no turn takes: evidence, and the wish to stop.
  void wake_coordinator();
  /// Before a look at the inputs: a ring from here on writes to the doorbell again.
  void take_ring() RUEDA_ON(baton_holder);
  void take_for_good() RUEDA_ATTRIBUTE(acquire_capability(baton_holder));
  // engine_end.cc: the end of the epoch
  bool end_and_wake(const Status& why) RUEDA_EXCLUDES(ending_mutex_);
  void fail_lane_safely(const Batch& batch, const Status& result);
  void check_devices(const Batch& batch);
  void fail_lane(const Batch& batch, const Status& result);
  void take_from_peers(const Batch& batch) noexcept;
  Status ran_too_long(const Batch& batch, const std::string& what) const;
  // engine_report.cc: figures and the flight record
  void serve_metrics();
  void begin_timeline();
  std::map<std::string, uint64_t> memory();
  RankDump record() const;
  void write_to_dump_file(const RankDump& taken) const;
  void warn_if_refused(const Status& posted) const;
  // engine_stalls.cc: what hangs
  BatchProgress progress_of(const BatchName& batch) RUEDA_ON(baton_holder);
  void look_for_late_batch(SteadyClock::time_point now) RUEDA_ON(baton_holder);
  std::vector<std::string> look_for_stalls(SteadyClock::time_point now, Status& end) RUEDA_ON(baton_holder);
  // shutdown.cc
  void notify_progress() RUEDA_EXCLUDES(progress_mutex_);
  void wait_for_goodbye(Deadline deadline);
  void wait_for_last_word(Deadline deadline);
  void leave(Deadline deadline);
  template <typename Step>
  void in_any_case(Step&& step) noexcept;

  Formation formation_;
  const EpochPlan plan_;
  const Status farewell_;  ///< why the epoch is over once this rank has left; a shutdown may find no memory for it
  const std::unique_ptr<Executor> executor_;
  const WaitStyle style_;
  const bool reaches_arenas_;  ///< this rank has one, and reaches those of all others of its host
  const bool one_host_;
  const bool cores_to_spare_;  ///< a caller can spin while its lane's thread runs
  const bool may_nap_;         ///< the coordinator: callers lack the cores, and control frames need no transport
  const size_t segment_bytes_;
  CoreClaim claim_;
  const std::unique_ptr<LaneCores> lane_cores_;  ///< null unless lanes follow callers
  const std::unique_ptr<RankSpread> spread_;     ///< null unless ranks outnumber cores; used by the baton's holder
  // Each of these says itself which thread may use it.
  Abort abort_;
  Mutex ending_mutex_;  ///< held by the thread that ends the epoch while it wakes the others
  Faults faults_;
  Inbox inbox_;
  NamesInFlight names_;
  ProcessSets sets_;
  Completer completer_;
  Timeline timeline_;
  Recorder recorder_;
  Activity activity_;
  Answers answers_;
  TaskThread task_thread_;
  TrialTimes trial_times_;
  std::unique_ptr<Tuning> tuning_;  ///< on rank 0; the baton's holder, through the arbiter
  Teams teams_;
  Lanes lanes_;
  Baton baton_;
  TurnSignals signals_;
  std::unique_ptr<Turn> turn_ RUEDA_GUARDED_BY(baton_holder);
  LateWatch late_watch_ RUEDA_GUARDED_BY(baton_holder);
  LateBatches late_batches_ RUEDA_GUARDED_BY(baton_holder);  ///< used on rank 0, as are the judge and the inquiry
  StallJudge stall_judge_ RUEDA_GUARDED_BY(baton_holder);
  Inquiry inquiry_ RUEDA_GUARDED_BY(baton_holder);
  std::atomic<int> caller_core_{-1};       ///< kept only if the coordinator may nap
  std::atomic<bool> rung_{false};          ///< the coordinator was rung and no thread has taken the baton since
  std::atomic<uint64_t> output_bytes_{0};  ///< of outputs that the library owns and no caller has released
  Mutex pairs_mutex_;
  Mutex progress_mutex_;
  Condition progress_;             ///< `left_` or the abort changed
  std::atomic<bool> left_{false};  ///< the goodbye of this rank, or of rank 0, has its position in the order
  std::atomic<bool> ended_{false};
  std::atomic<bool> left_in_order_{false};
  std::unique_ptr<Coordinator> coordinator_;  ///< from start to shutdown, as are the next
  std::unique_ptr<Heart> heart_;              ///< null if no rank of this host would look at it
  std::unique_ptr<HttpPage> metrics_;
};

}  // namespace rueda::core
