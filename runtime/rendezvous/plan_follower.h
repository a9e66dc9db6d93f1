#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/cutoff.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/store/plan.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// The notices of plans to come, as far as this worker has heard of them.
struct PendingPlans {
  int64_t heard = 0;     ///< how many notices the job has had
  uint64_t plan = 0;     ///< the latest plan they lead to that this worker has not taken; 0 if there is none
  uint32_t changes = 0;  ///< of these plans together
  uint32_t newcomers = 0;
  double seconds_to_removal = 0;  ///< counted from now; 0 if nothing is stopped
};

/// What hvdrun tells one worker of an elastic job: the plans, that it is removed, that its plan is over, what is
/// coming. It waits for all of this at once, over one connection, on a thread of its own ("rueda-member") that ends
/// with it. Any thread may call it. The session owns it.
class PlanFollower {
 public:
  /// Connects to hvdrun's store, which blocks. `where.job` is the whole job's name. `on_notice` may be empty. It is
  /// called on the follower's thread with every notice of a plan that was not taken, before that is pending; other news
  /// waits until it returns. Errors as `StoreClient::connect`; kSystem if the system gives no thread.
  static Result<std::unique_ptr<PlanFollower>> start(const StoreLocation& where, int64_t worker, Deadline deadline,
                                                     std::function<void(const MembershipNotice&)> on_notice = {});
  ~PlanFollower();
  PlanFollower(const PlanFollower&) = delete;
  PlanFollower& operator=(const PlanFollower&) = delete;

  int64_t worker() const;
  /// Waits for the latest plan that has this worker and a number over `after`. Returns kRemoved once no plan will have
  /// it; kTimeout at the deadline; the verdict if hvdrun ends the job; kSystem if its store is gone.
  Result<Plan> await_plan(uint64_t after, Deadline deadline);
  /// Waits for the present plan, the latest that there is, whoever is in it. Errors as `await_plan`.
  Result<Plan> present(Deadline deadline);
  /// Takes plan `number` as the one this worker is in: notices that lead to it are pending no more. Returns what is
  /// raised with the reason once the plan is over, at once if it is over already. Returns kSystem if the system gives
  /// no descriptor.
  Result<std::shared_ptr<Cutoff>> take(uint64_t number);
  /// Asks hvdrun for the next plan, which ends the one that the worker has left for all. Never blocks.
  void ask(const PlanRequest& request);
  /// Sets a key of the store without waiting for an answer. Never blocks.
  void tell(std::string key, std::string value);

  /// Marks all notices as read.
  PendingPlans pending();
  /// A descriptor that is readable while a notice is there that `pending` has not returned. Made at the first call,
  /// lives as long as this. Returns kSystem if the system gives none.
  Result<int> notice_fd();

 private:
  struct State;
  enum class Which { kOwn, kPresent };
  Result<Plan> await(uint64_t after, Deadline deadline, Which which);
  explicit PlanFollower(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
