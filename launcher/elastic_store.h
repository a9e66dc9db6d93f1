#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launcher/job_store.h"
#include "runtime/store/death.h"
#include "runtime/store/plan.h"

namespace rueda::core::launcher {

/// The keys of an elastic job: hvdrun writes plans, verdicts and notices; workers write what they do in a plan and what
/// they ask for. Plan N has a job name of its own, whose keys are removed once two later plans are there. One thread
/// uses it; only the events come from another.
class ElasticStore {
 public:
  /// What workers do. Called on the server's thread; must not block.
  struct Events {
    std::function<void(int64_t worker, uint64_t plan)> began;   ///< whenever a worker begins to form the plan
    std::function<void(int64_t worker, uint64_t plan)> formed;  ///< once a newcomer's call returns with the plan
    std::function<void(int64_t worker, uint64_t plan)> left;    ///< whenever one has said goodbye in it
    std::function<void(int64_t worker)> asked;                  ///< whenever `request` has a new value
    std::function<void(uint64_t plan)> evidence;                ///< once for a plan: a rank reports another one as dead
  };
  /// `store` outlives it.
  ElasticStore(JobStore& store, Events events);

  /// Begins to watch for requests of a worker. Call it before the worker starts.
  void watch(int64_t worker);
  /// Drops the watch and the keys of a worker whose process has ended.
  void forget(int64_t worker);
  /// Makes the plan known to workers.
  Status publish(const Plan& plan);
  /// Ends a plan for its members.
  Status declare_void(uint64_t plan, const DeathVerdict& verdict);
  /// Tells the worker that it is in no further plan.
  Status remove(int64_t worker, const std::string& why);
  Status notify(const MembershipNotice& notice);
  /// Ends every wait of every worker with this sentence.
  Status end(const std::string& why);

  /// Returns what the worker has asked for last. Empty if it has not asked.
  std::optional<PlanRequest> request(int64_t worker);
  /// Returns what a rank of the plan has reported of another: that rank, and how it died.
  std::optional<DeathVerdict> evidence(uint64_t plan);
  /// Returns the last plan that the worker has begun to form, of the last two plans; 0 if it is in none of them.
  uint64_t last_joined(int64_t worker);
  /// Returns whether the worker has shut down in this plan after its last `init` there, and has asked for no other plan
  /// since.
  bool said_goodbye(int64_t worker, uint64_t plan);

 private:
  std::string job_of(uint64_t plan) const;
  JobStore& store_;
  Events events_;
  Plan last_, before_;
  int64_t notices_ = 0;
};

}  // namespace rueda::core::launcher
