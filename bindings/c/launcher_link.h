#pragma once
#include <memory>

#include "runtime/engine/dump_source.h"
#include "runtime/engine/verdict_source.h"
#include "runtime/rendezvous/plan_follower.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// The two ways in which a launcher talks to a rank through its store.
struct LauncherLink {
  std::unique_ptr<VerdictSource> verdicts;
  std::unique_ptr<DumpSource> dumps;
};

/// Makes one connection for each. Returns the store's errors.
Result<LauncherLink> link_to_launcher(const StoreLocation& where, int rank, Deadline deadline);

/// hvdrun's requests for flight records to one worker of an elastic job, whose engines come and go: an engine that
/// starts later sees only later requests. The session owns it.
class WorkerDumps {
 public:
  /// Makes one connection. Returns the store's errors.
  static Result<std::unique_ptr<WorkerDumps>> start(const StoreLocation& where, int64_t worker, Deadline deadline);
  /// The source for the next engine. The one before has ended.
  std::unique_ptr<DumpSource> source() const;

 private:
  explicit WorkerDumps(std::shared_ptr<DumpSource> requests) : requests_(std::move(requests)) {}
  std::shared_ptr<DumpSource> requests_;
};

/// What tells an engine that its plan is over, and hvdrun of evidence. `members` outlives it; `job` is the plan's own.
std::unique_ptr<VerdictSource> plan_verdicts(PlanFollower& members, std::shared_ptr<Cutoff> cutoff, std::string job);

}  // namespace rueda::core
