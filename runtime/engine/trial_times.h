#pragma once
#include <atomic>
#include <utility>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/baton.h"

namespace rueda::core {

/// How long trials took, on their way from the threads that ran them to the turn that reports them. Nothing rings for
/// them: they travel with the next frame. The engine owns it; any thread pushes.
class TrialTimes {
 public:
  using Time = std::pair<SetId, TrialTime>;  ///< with the id that rank 0 gave the set

  void push(SetId set, const TrialTime& time) RUEDA_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    waiting_.emplace_back(set, time);
    filled_.store(true);
  }
  bool empty() const { return !filled_.load(std::memory_order_relaxed); }
  std::vector<Time> take() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    filled_.store(false);
    return std::exchange(waiting_, {});
  }

 private:
  Mutex mutex_;
  std::vector<Time> waiting_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<bool> filled_{false};
};

}  // namespace rueda::core
