#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// The judge of deaths in this epoch.
enum class JudgedBy { kLauncher, kRankZero };

/// Turns evidence of a death (a pidfd, the end of a socket, a broken stream) into one reason for the end of the epoch.
/// The judge's verdict wins if it comes within the grace; otherwise the first evidence becomes the reason. A rank that
/// said goodbye does not die, but the ranks that reach rank 0 through it are cut off if it goes before them. The engine
/// owns it. Any thread.
class Faults {
 public:
  /// After this long any evidence counts without a verdict.
  static constexpr std::chrono::milliseconds kLongestGrace{2000};

  /// `plan` outlives it.
  Faults(const EpochPlan& plan, JudgedBy judge);

  /// `rank` seems gone; `how` completes "rank 1 (host a, pid 7) died: ...", or it is a whole sentence that begins with
  /// `EpochPlan::name_of(rank)`.
  void observe(int rank, const std::string& how) RUEDA_EXCLUDES(mutex_);
  /// `rank` has said goodbye.
  void left(int rank) { left_[static_cast<size_t>(rank)].store(true); }
  bool has_left(int rank) const { return left_[static_cast<size_t>(rank)].load(); }
  /// When `due` may return a reason; never if there is no evidence.
  Deadline next() const RUEDA_EXCLUDES(mutex_);
  /// The reason to end the epoch, once the grace of some evidence has passed and its rank did not leave.
  std::optional<Status> due() RUEDA_EXCLUDES(mutex_);
  /// How long ago the first evidence came, judged or not; empty if there was none. What a grace buys is the time
  /// between that and the judge's verdict.
  std::optional<std::chrono::nanoseconds> since_first() const RUEDA_EXCLUDES(mutex_);
  /// Drops the evidence so far: this rank no longer needs any other.
  void forget() RUEDA_EXCLUDES(mutex_);

 private:
  bool cut_off_by(int rank) const;
  struct Evidence {
    int rank;
    Deadline grace_end;
    std::string how;
  };
  const EpochPlan& plan_;
  const JudgedBy judge_;
  std::vector<char> linked_;  ///< by rank: control frames go between it and this one
  int upstream_ = -1;         ///< in the tree, the rank above if that is not rank 0
  std::vector<std::atomic<bool>> left_;
  mutable Mutex mutex_;
  std::vector<Evidence> evidence_ RUEDA_GUARDED_BY(mutex_);
  std::optional<SteadyClock::time_point> first_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
