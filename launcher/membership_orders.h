#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/store/plan.h"

namespace rueda::core::launcher {

/// What the membership of an elastic job decides; its conductor carries the orders out one after the other.

/// The plan is over for all its members. `worker` is the member whose death or request ended it; kGoodbye: it asked
/// after it had left the plan in order.
struct VoidPlan {
  enum class Ground { kDeath, kRequest, kGoodbye };
  uint64_t plan = 0;
  int rank = 0;  ///< the worker's rank in that plan
  int64_t worker = 0;
  Ground ground = Ground::kDeath;
  std::string cause;  ///< a clause that continues the worker's name
};

/// The next plan; its number follows that of the one before, which is void.
struct PublishPlan {
  Plan plan;
};

/// A new process in this slot of this host.
struct StartWorker {
  int64_t worker = 0;
  std::string host;
  int slot = 0;
  int rank = 0;  ///< in the first plan; for a worker that comes later, the rank that it would have now
  int size = 1;
};

/// The process must end: SIGTERM, after the grace SIGKILL. Its end is not a further failure.
struct StopWorker {
  int64_t worker = 0;
};

/// The worker is in no further plan and is told so when it asks. `why` is a sentence.
struct RemoveWorker {
  int64_t worker = 0;
  std::string why;
};

/// Members hear that the next plan will differ. `changes` has the bits of kWorkersRemoved and kWorkersAdded; 0 takes
/// the notice before it back.
struct NotifyMembers {
  uint32_t changes = 0;
  uint64_t plan = 0;                     ///< the plan to which they lead
  uint32_t newcomers = 0;                ///< workers that are ready to join
  std::chrono::milliseconds removal{0};  ///< time until a worker that leaves is ended; 0 if none is
};

/// A line for the user.
struct Tell {
  std::string sentence;
};

/// Last of all. `sentence` says why the job failed; empty if it succeeded.
struct EndJob {
  int exit_code = 0;
  std::string sentence;
};

using MembershipOrder =
    std::variant<VoidPlan, PublishPlan, StartWorker, StopWorker, RemoveWorker, NotifyMembers, Tell, EndJob>;

/// A worker that ended with code 0 after a goodbye. The others may have gone on without it.
struct FinishedWorker {
  int64_t worker = 0;
  uint64_t plan = 0;  ///< the last plan that it began to form
};

/// A worker that failed.
struct WorkerDeath {
  int64_t worker = 0;
  std::string host;
  uint64_t plan = 0;  ///< the plan in which it was; 0 if it was in none yet
  std::string cause;  ///< "killed by signal 9 (Killed)"
  int exit_code = 1;
};

}  // namespace rueda::core::launcher
