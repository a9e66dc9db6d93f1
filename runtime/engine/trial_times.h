#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/baton.h"
#include "runtime/net/segment.h"

namespace rueda::core {

/// When one rank ran a batch.
struct TrialSpan {
  SteadyClock::time_point agreed;  ///< its verdict came
  SteadyClock::time_point before;  ///< the set's batch before it ended, if there was one
  SteadyClock::time_point ended;
  bool known = true;  ///< false if another batch of the set ran at the same time
};

/// How long trials took, on their way from the threads that ran them to the turn that reports them. A batch takes from
/// its first verdict, or the last end of the batch before it, to its last end: a way in which some ranks end early must
/// not look better than it is. Each rank shows its times in shared memory; the set's lowest member waits until all
/// members on its host have shown theirs. Members on other hosts are left out, since no clock is common to hosts, and
/// so are ranks whose steady clock is another one (time namespaces).
///
/// Nothing rings for times: they travel with the next frame. A time that is not known, or that a later trial has
/// overwritten, is never reported; at most kTrialsShown trials are waited for. The engine owns it.
class TrialTimes {
 public:
  using Time = std::pair<SetId, TrialTime>;  ///< with the id that rank 0 gave the set

  /// Tells the host's ranks which steady clock this process reads. `words`: by rank, this one included; null for ranks
  /// of other hosts. They outlive this.
  TrialTimes(int rank, std::vector<ControlWords*> words);

  /// Shows when this rank ran the batch of a trial. Any thread.
  void show(uint64_t trial, const TrialSpan& span) RUEDA_EXCLUDES(mutex_);
  /// From now on `take` looks for the times of these members. This rank is the lowest of them and has shown its own.
  /// Any thread; does not block.
  void await(SetId set, const TrialTime& time, const std::vector<int>& members) RUEDA_EXCLUDES(mutex_);
  /// Returns whether `take` has nothing to look for.
  bool empty() const { return !waits_.load(std::memory_order_relaxed); }
  /// Returns the trials that all awaited members have shown by now, each once.
  std::vector<Time> take() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);

 private:
  struct Waiting {
    SetId set = kGlobalSet;
    TrialTime time;
    std::vector<const ControlWords*> members;
  };
  enum class Found { kComplete, kMissing, kLost };
  static Found look(const Waiting& waiting, std::chrono::nanoseconds& took);

  const size_t rank_;
  const std::vector<ControlWords*> words_;
  Mutex mutex_;
  std::deque<Waiting> waiting_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<bool> waits_{false};
};

}  // namespace rueda::core
