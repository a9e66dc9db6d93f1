#pragma once
#include <atomic>
#include <memory>
#include <thread>

#include "runtime/base/abort.h"
#include "runtime/diagnosis/dump.h"
#include "runtime/engine/activity.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/completer.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/dump_signal.h"
#include "runtime/engine/dump_source.h"
#include "runtime/engine/faults.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/names_in_flight.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/process_sets.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/stopped_peers.h"
#include "runtime/engine/teams.h"
#include "runtime/engine/timeline.h"
#include "runtime/engine/turn.h"
#include "runtime/engine/verdict_source.h"
#include "runtime/engine/worker.h"
#include "runtime/net/http_page.h"
#include "runtime/rendezvous/form.h"

namespace rueda::core {

/// One rank in one epoch: takes operations, agrees on them with the other ranks, runs them, completes them. Made from a
/// `Formation`, used from any thread, ended by `shutdown` once. Operations keep it alive, inert, after that.
class Engine : public std::enable_shared_from_this<Engine>, private LaneObserver, private TurnObserver {
 public:
  /// Starts the coordinator thread. `verdicts` may be null: rank 0 is the judge; `dumps` too: nobody asks.
  static std::shared_ptr<Engine> start(Formation formation, std::unique_ptr<Executor> executor,
                                       std::unique_ptr<VerdictSource> verdicts,
                                       std::unique_ptr<DumpSource> dumps = nullptr);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EpochPlan& plan() const { return plan_; }
  /// Ok while operations are taken, else why not.
  Status status() const { return inbox_.closed(); }

  /// A number for a name that comes again (see `NamesInFlight`). kInvalidArgument: empty, or too long for the wire.
  Result<uint32_t> intern(std::string_view name);
  /// Empty: `number` stands for nothing.
  std::string_view interned(int64_t number) const { return names_.text(number); }

  /// Enqueues. Not ok: nothing was enqueued (kInvalidArgument: a name is in flight; kShutDown, kPeerLost: as named).
  /// With `more` nobody is woken: whoever looks next takes it, which is the coordinator's tick at the latest.
  Status submit(const std::shared_ptr<Operation>& operation);
  /// Enqueues and waits, as one: the shortest way for one small tensor. `entered` not ok: nothing was enqueued.
  Status submit_and_wait(const std::shared_ptr<Operation>& operation, Status& entered);
  /// Waits until done and returns the operation's status; runs turns meanwhile where that is allowed.
  /// kTimeout, kInterrupted with `operation.done()` false: it is still in flight.
  Status wait(Operation& operation, Deadline deadline);
  /// Somebody looks at what was submitted with `more`. Any thread, never blocks.
  void look() {
    if (!inbox_.empty()) ring_coordinator();  // the baton's word is gone once another thread has shut down
  }
  /// Gets the loan back: an error verdict on all ranks where there is no batch yet; else waits, and at the deadline
  /// ends the epoch. Returns once the operation is done, with its status.
  Status abandon(const std::shared_ptr<Operation>& operation, Deadline deadline);
  /// Makes a process set and returns this rank's number for it at once, to be used at once: operations wait until all
  /// members have asked for the same ranks. Members match by `name`, or by the ranks and their order of asking where it
  /// is empty. kInvalidArgument: see `ProcessSets::add`; the session's state where it takes nothing.
  Result<SetId> add_process_set(std::vector<int> ranks, const std::string& name);
  /// The set in which `sender` sends to `receiver`; one of them is this rank, the other another one.
  Result<SetId> pair_set(int sender, int receiver) RUEDA_EXCLUDES(pairs_mutex_);
  /// Never blocks. kInvalidArgument: see `ProcessSets::remove`.
  Status remove_process_set(SetId number);
  const ProcessSets& process_sets() const { return sets_; }
  /// What an operation of this engine is made with; shares ownership of the engine. Any thread.
  OperationHome operation_home();
  /// What this rank has done since the epoch began, as a JSON object (docs/guide/diagnosis.md).
  std::string stats();
  /// The flight record, with what the program says it is doing now, which takes `Activity::kPatience` at most.
  RankDump dump();
  /// See `Timeline::start` and `stop`.
  Status start_timeline(const std::string& path, bool mark_rounds) { return timeline_.start(path, mark_rounds); }
  Status stop_timeline(Deadline deadline) { return timeline_.stop(deadline); }
  /// Who is asked what the program does. Empty: nobody.
  void set_activity(Activity::Source source) { activity_.set(std::move(source)); }
  /// Says goodbye, lets lanes finish, fails the rest and frees threads and memory; at most until `deadline` or little
  /// more.
  void shutdown(Deadline deadline);

 private:
  Engine(Formation formation, std::unique_ptr<Executor> executor, std::unique_ptr<VerdictSource> verdicts,
         std::unique_ptr<DumpSource> dumps);

  void batch_started(Batch& batch) override;
  void batch_finished(Batch& batch, const Status& result) override;
  void tensor_finished(TensorPart& tensor, const Status& status) override;
  void rank_left(int rank) override;
  void link_lost(int rank, const Status& how) override;
  void epoch_over(const Status& why) override;
  void asked(const Ask& ask) override RUEDA_REQUIRES(baton_);
  void answered(int rank, const Answer& answer) override RUEDA_REQUIRES(baton_);
  void heard_of_late(const LateBatch& batch) override RUEDA_REQUIRES(baton_);

  AgreementConfig agreement_config() const;
  std::vector<std::unique_ptr<ControlLink>> make_links();
  Heartbeats make_heartbeats() const;
  std::unique_ptr<Lane> make_lane(int lane);
  template <typename Done, typename WorthIt>
  void drive(Done&& done, WorthIt&& worth_it, Deadline deadline = Deadline::never()) RUEDA_REQUIRES(baton_);
  bool worth_spinning(const Operation& operation) const;
  void drive_quietly() RUEDA_REQUIRES(baton_);
  bool run_turn() RUEDA_REQUIRES(baton_);
  void notify_progress() RUEDA_EXCLUDES(progress_mutex_);
  void settle() RUEDA_ATTRIBUTE(release_capability(baton_));
  bool enter(const std::shared_ptr<Operation>& operation, Status& entered);
  void ring_coordinator();
  void finish(TensorPart& tensor, const Status& status);
  void fail_lane(const Batch& batch, const Status& result);
  Status ran_too_long(const Batch& batch, const std::string& what) const;
  void serve_metrics();
  /// Bytes that this engine holds, by what for.
  std::map<std::string, uint64_t> memory();
  void begin_timeline();
  void watch_signal();
  void dump_for_signal();
  RankDump record() const;
  void record_error();
  void give_dump(int64_t number);
  BatchProgress progress_of(const BatchName& batch) RUEDA_REQUIRES(baton_);
  void look_for_late_batch(SteadyClock::time_point now) RUEDA_REQUIRES(baton_);
  std::vector<std::string> look_for_stalls(SteadyClock::time_point now, Status& end) RUEDA_REQUIRES(baton_);

  void coordinate();
  void watch_peers();
  void observe_stream(int fd, int rank);
  void tick();
  std::chrono::nanoseconds usual_tick() const;
  void look_for_stopped_peers();
  void look_for_silent_paths();
  void accuse(int rank, const std::string& how);
  void judge_evidence();
  void wait_for_goodbye(Deadline deadline);
  void wait_for_last_word(Deadline deadline);
  void take_for_good() RUEDA_ATTRIBUTE(acquire_capability(baton_));

  Formation formation_;
  const EpochPlan plan_;
  const std::unique_ptr<Executor> executor_;
  std::unique_ptr<VerdictSource> verdicts_;  ///< the coordinator thread
  std::unique_ptr<DumpSource> dumps_;
  const WaitStyle style_;
  const bool cores_to_spare_;  ///< a caller can spin while its lane's thread runs
  const size_t segment_bytes_;
  CoreClaim claim_;
  Abort abort_;
  Faults faults_;
  Inbox inbox_;
  NamesInFlight names_;
  ProcessSets sets_;
  Completer completer_;
  Timeline timeline_;
  Recorder recorder_;
  Activity activity_;
  std::unique_ptr<DumpSignal> dump_signal_;  ///< from start to shutdown
  Answers answers_;
  Worker worker_;
  Teams teams_;
  Lanes lanes_;
  Baton baton_;
  TurnSignals signals_;
  std::unique_ptr<Turn> turn_ RUEDA_GUARDED_BY(baton_);
  LateWatch late_watch_ RUEDA_GUARDED_BY(baton_);
  LateBatches late_batches_ RUEDA_GUARDED_BY(baton_);  ///< rank 0's, as are the judge and the inquiry
  StallJudge stall_judge_ RUEDA_GUARDED_BY(baton_);
  Inquiry inquiry_ RUEDA_GUARDED_BY(baton_);
  std::atomic<bool> rung_{false};  ///< the coordinator was rung and nobody has taken the baton since
  std::atomic<uint64_t> output_bytes_{0};  ///< of outputs that the library owns and no caller has released
  Mutex pairs_mutex_;
  Mutex progress_mutex_;
  Condition progress_;             ///< `left_` or the abort changed
  std::atomic<bool> left_{false};  ///< this rank, or rank 0, has its goodbye in the order
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  SteadyClock::time_point next_tick_;  ///< the coordinator thread
  StoppedPeers stopped_;               ///< the coordinator thread
  bool error_recorded_ = false;        ///< the coordinator thread
  std::unique_ptr<HttpPage> metrics_;  ///< from start to shutdown
  std::thread coordinator_;
};

}  // namespace rueda::core
