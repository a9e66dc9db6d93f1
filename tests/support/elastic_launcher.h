#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/store/death.h"
#include "runtime/store/plan.h"
#include "runtime/store/store_server.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {

/// hvdrun's part of an elastic job, as far as workers see it: a store with plans, verdicts and notices. The test
/// decides what becomes of the job. One thread uses it. Throws std::runtime_error if the store fails.
class ElasticLauncher {
 public:
  ElasticLauncher();

  /// The key, for the workers' processes.
  const std::string& key() const { return key_; }
  const std::string& job() const { return job_; }
  core::StoreServer& store() { return *store_; }
  /// The environment of worker `id`, which starts as one of `size`.
  RankProcesses::Variables variables(int id, int size) const;

  /// The number of the last plan; 0 before the first.
  uint64_t plan() const { return last_.number; }
  /// The name of the last plan's own job.
  std::string plan_job() const;
  /// Publishes the next plan, with these workers in rank order, each at the slot of its number. Workers of plan 1 hold
  /// the state, and so do those that had formed a later plan when it ended. Comes after the end of the last plan.
  void publish(const std::vector<int>& ids);
  /// Ends the last plan: this worker died.
  void declare_dead(int id, const std::string& cause);
  /// Ends the last plan though nobody died.
  void end_plan(const std::string& why, core::DeathKind kind = core::DeathKind::kOver);
  /// No further plan has this worker. Comes before the plan without it.
  void remove(int id);
  /// The next notice.
  void announce(const core::MembershipNotice& notice);
  /// Waits until the worker asks for the plan after `plan`. Returns its request.
  core::PlanRequest await_reset(int id, uint64_t plan);

 private:
  /// How often a worker has asked for a plan; the store's thread counts.
  struct Asked {
    core::Mutex mutex;
    core::Condition changed;
    int times RUEDA_GUARDED_BY(mutex) = 0;
  };
  void set(const std::string& key, const std::string& value);
  void note_holders();
  std::string key_;
  std::string job_ = "elastic";
  std::map<int, std::shared_ptr<Asked>> asked_;
  std::unique_ptr<core::StoreServer> store_;
  core::Plan last_;
  std::set<int64_t> holders_;
  std::string why_;
  int64_t notices_ = 0;
};

}  // namespace rueda::test
