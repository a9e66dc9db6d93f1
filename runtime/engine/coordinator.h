#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/base/thread_role.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/burst.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/dump_signal.h"
#include "runtime/engine/dump_source.h"
#include "runtime/engine/faults.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/stopped_peers.h"
#include "runtime/engine/timeline.h"
#include "runtime/engine/verdict_source.h"
#include "runtime/rendezvous/form.h"

namespace rueda::core {

/// The role of the thread that a `Coordinator` starts.
inline constexpr ThreadRole coordinator_thread;

/// What one look at the engine's state found.
struct Findings {
  std::vector<int> silent;         ///< ranks of other hosts that have sent nothing for the peer timeout
  std::vector<std::string> lines;  ///< of a finished stall report, for the log
  Status end;                      ///< if not ok, the epoch has to end for this reason
  bool inquiring = false;          ///< rank 0 waits for answers, so the next look has to come soon
};

/// What the coordinator has the engine do. `Engine` implements it. All on the coordinator thread.
class CoordinatorTasks {
 public:
  virtual ~CoordinatorTasks() = default;
  /// Runs turns until one moves nothing. Never waits for a peer, except while it steps an inline
  /// batch. Returns how many operations of callers were new, or 0 if turns must go on.
  virtual size_t run_turns() RUEDA_ON(baton_holder) = 0;
  /// The core on which a caller last submitted an operation; -1 if that is not known.
  virtual int caller_core() const = 0;
  /// Puts the baton down.
  virtual void settle() RUEDA_ATTRIBUTE(release_capability(baton_holder)) = 0;
  /// Applies time limits and looks for silent ranks and stalls. About once a second.
  virtual Findings look_around(SteadyClock::time_point now) RUEDA_ON(baton_holder) = 0;
  /// Whether no other rank still reaches rank 0 through this one.
  virtual bool needed_by_none() RUEDA_ON(baton_holder) = 0;
  virtual void epoch_over(const Status& why) = 0;
  /// The epoch ends in order on all ranks: takes no more operations, for this reason, and says goodbye.
  virtual void begin_to_leave(const Status& why) = 0;
  /// Whether the goodbye has its position in the order and all that was agreed before it has run.
  virtual bool has_left() RUEDA_ON(baton_holder) = 0;
  /// A step of the coordinator has thrown: ends the epoch for it.
  virtual void step_failed(const std::exception& error) noexcept = 0;
  /// Writes the flight record to its file, or what hung to the log: the epoch has ended with an error. May block on a
  /// disk.
  virtual void record_error() = 0;
  /// The user sent RUEDA_DUMP_SIGNAL: writes the flight record on another thread.
  virtual void dump_for_signal() = 0;
  /// The launcher asked for the flight record under this number: hands it to `source` on another thread.
  virtual void dump_for_launcher(DumpSource& source, int64_t number) = 0;
};

/// The thread that is always there: it takes the baton when it is rung, sleeps in the transport's loop, applies time
/// limits once a second, and collects evidence of deaths. Owns what only this thread reads: the launcher's verdicts and
/// requests, the peers' states, the signal.
///
/// The engine owns it, makes it before other threads know the engine, and calls `start`, `begin_stop` and `join` once
/// each, in this order. All private functions and members belong to the coordinator thread.
class Coordinator {
 public:
  /// References outlive the coordinator.
  struct Parts {
    const EpochPlan& plan;
    Formation& formation;                     ///< it uses the transport, the doorbell and the local peers
    std::unique_ptr<VerdictSource> verdicts;  ///< null if rank 0 judges deaths
    std::unique_ptr<DumpSource> dumps;        ///< null if no launcher asks for flight records
    Faults& faults;
    const Abort& abort;
    Baton& baton;
    const Lanes& lanes;
    Timeline& timeline;
    CoordinatorTasks& tasks;
  };
  explicit Coordinator(Parts parts);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Watches the signal that the user named and starts the thread. Returns kSystem if the system gives none.
  Status start();
  /// Whether `start` has succeeded.
  bool started() const { return thread_.joinable(); }
  /// Has the thread end with its next wake-up; the caller rings it then.
  void begin_stop() { stopping_.store(true); }
  /// Waits until the thread has ended, if there is one, and stops watching the signal.
  void join();

 private:
  void run() RUEDA_ON(coordinator_thread);
  void watch_all() RUEDA_ON(coordinator_thread);
  void round() RUEDA_ON(coordinator_thread);
  template <typename Step>
  void safely(Step&& step) RUEDA_ON(coordinator_thread);
  void watch_signal();
  void watch_peers() RUEDA_ON(coordinator_thread);
  void watch_launcher() RUEDA_ON(coordinator_thread);
  void observe_stream(int fd, int rank) RUEDA_ON(coordinator_thread);
  void sleep() RUEDA_ON(coordinator_thread);
  void nap(std::chrono::nanoseconds time) RUEDA_ON(coordinator_thread);
  void await_descriptors(std::chrono::nanoseconds limit) RUEDA_ON(coordinator_thread);
  void sleep_alone(std::chrono::milliseconds limit) RUEDA_ON(coordinator_thread);
  void take_verdict() RUEDA_ON(coordinator_thread);
  void take_dump_request() RUEDA_ON(coordinator_thread);
  void look_whether_left() RUEDA_ON(coordinator_thread);
  void tick() RUEDA_ON(coordinator_thread);
  void note_error() RUEDA_ON(coordinator_thread);
  std::chrono::nanoseconds usual_tick() const;
  void look_for_stopped_peers() RUEDA_ON(coordinator_thread);
  void look_for_silent_paths() RUEDA_ON(coordinator_thread);
  void accuse(int rank, const std::string& how) RUEDA_ON(coordinator_thread);
  void judge_evidence() RUEDA_ON(coordinator_thread);

  Parts parts_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<DumpSignal> dump_signal_;  ///< from `start` to `join`; null if the user named no signal
  SteadyClock::time_point next_tick_ RUEDA_GUARDED_BY(coordinator_thread);
  CoreVisit visit_ RUEDA_GUARDED_BY(coordinator_thread);
  Burst burst_ RUEDA_GUARDED_BY(coordinator_thread);
  StoppedPeers stopped_ RUEDA_GUARDED_BY(coordinator_thread);
  bool verdict_taken_ RUEDA_GUARDED_BY(coordinator_thread) = false;
  std::optional<Verdict> leaving_ RUEDA_GUARDED_BY(coordinator_thread);  ///< while the epoch ends in order
  Deadline leave_by_ RUEDA_GUARDED_BY(coordinator_thread) = Deadline::never();
  bool error_noted_ RUEDA_GUARDED_BY(coordinator_thread) = false;
  std::thread thread_;
};

}  // namespace rueda::core
