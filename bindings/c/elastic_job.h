#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/c/launcher_link.h"
#include "bindings/c/plugins.h"
#include "bindings/c/static_sets.h"
#include "runtime/base/environment.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/plan_follower.h"
#include "runtime/rendezvous/segment_reserve.h"

namespace rueda::core {

/// What hvdrun has told a worker of an elastic job at its start.
struct WorkerStart {
  int64_t worker = 0;                       ///< its number
  std::chrono::duration<double> rejoin{0};  ///< for how long hvdrun waits for a member of a plan
  /// Whether the members of the present plan are told of a new worker only once it is ready (--admit ready).
  bool may_wait = false;
  int slot = 0;  ///< on its host
};

/// The start of this worker if hvdrun has started it for an elastic job (RUEDA_ELASTIC=1, RUEDA_WORKER_ID,
/// RUEDA_REJOIN_TIMEOUT, RUEDA_ADMIT); else empty. Returns kInvalidArgument, naming the variable, if one of them makes
/// no sense.
Result<std::optional<WorkerStart>> elastic_worker(const Environment& environment);

/// One worker in an elastic job: joins one plan after the other, each with an engine of its own. Keeps the connections
/// to hvdrun meanwhile. The session owns it. `join` on one thread at a time; the rest on any.
class ElasticJob {
 public:
  /// What stays the same over all plans.
  struct Parts {
    Identity identity;  ///< with the job's name; rank and size are those of the process's start
    Settings settings;
    Plugins plugins;
    std::vector<StaticSet> sets;  ///< in ranks of plan 1
    int slot = 0;                 ///< of this worker on its host
  };
  /// Connects to hvdrun. Returns the store's errors; kInvalidArgument if no hvdrun is there to say who the members are.
  static Result<std::unique_ptr<ElasticJob>> meet(Parts parts, const WorkerStart& worker, const StoreChoice& choice,
                                                  Deadline deadline);

  /// What a worker is in.
  struct Joined {
    Plan plan;
    std::string job;  ///< the plan's own
    std::shared_ptr<Engine> engine;
  };
  /// The place of a worker that comes later, in the plan as it would be with it; its engine is of this worker alone.
  /// Empty if the present plan has this worker. Returns the errors of `PlanFollower::present`.
  Result<std::optional<Joined>> wait_outside(Deadline deadline);
  /// Tells hvdrun that this worker is ready for its first plan. Never blocks.
  void ask_for_first() { members_->ask({}); }
  /// Waits for the next plan that has this worker, after the one it joined last, forms it and starts its engine. If
  /// that plan ends meanwhile, goes on to the one after it. Errors as rueda_reset says; after one it may be called
  /// again.
  Result<Joined> join(Deadline deadline);
  /// Tells hvdrun that this worker has left the plan it joined last: in order if its engine has. One that has joined
  /// none asks for its first. Never blocks.
  void leave(Ending ending);

  PlanFollower& members() { return *members_; }
  /// hvdrun's store. The thread that joins, or ends the session.
  Store& store() { return *store_; }

 private:
  ElasticJob(Parts parts, std::chrono::nanoseconds patience, std::unique_ptr<Store> store,
             std::unique_ptr<SegmentReserve> reserve, std::unique_ptr<PlanFollower> members,
             std::unique_ptr<WorkerDumps> dumps);
  Result<std::shared_ptr<Engine>> form(const Plan& plan, const std::shared_ptr<Cutoff>& cutoff, Deadline deadline);
  Identity identity_in(const Plan& plan) const;
  Settings settings_in(const Plan& plan) const;
  using WorkerSets = std::vector<std::vector<int64_t>>;  ///< numbers of workers
  Status fix_sets(const Plan& plan, Deadline deadline);
  Result<WorkerSets> own_sets(const Plan& plan) const;
  Result<WorkerSets> sets_of_others(const Plan& plan, Deadline deadline);
  std::vector<StaticSet> sets_in(const Plan& plan) const;
  bool is_over(const Cutoff& cutoff, const Plan& plan, const Status& why);
  Status tell_formed(const Plan& plan);

  const Parts parts_;
  const std::chrono::nanoseconds patience_;  ///< to form a plan; 0: without a limit
  const std::unique_ptr<Store> store_;
  const std::unique_ptr<SegmentReserve> reserve_;  ///< for the plan that a notice leads to
  const std::unique_ptr<PlanFollower> members_;
  const std::unique_ptr<WorkerDumps> dumps_;
  uint64_t last_ = 0;               ///< the plan that was taken last
  std::optional<WorkerSets> sets_;  ///< empty until the first plan
};

}  // namespace rueda::core
