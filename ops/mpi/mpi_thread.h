#pragma once
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "ops/mpi/retired.h"
#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/plugin_abi.h"
#include "runtime/base/status.h"

namespace rueda::mpi {

using core::Deadline;
using core::Status;

/// Something that the MPI thread moves on, again and again while it is added.
class Mover {
 public:
  /// In the order of what the thread does next: sleep until it is woken; look now and then; look again soon; at once.
  enum class State { kIdle, kListening, kBusy, kMoved };
  virtual ~Mover() = default;
  virtual State move() = 0;
};

/// The one thread of this process that calls MPI. It initialises MPI unless the application has, and then finalises it
/// at exit. MPI cannot wake a thread, so this one asks it: without a pause for a moment after a move, then with pauses
/// that end when work comes. With nothing to move it sleeps.
class MpiThread {
 public:
  /// Lives as long as the process. `host` is the first caller's.
  static MpiThread& of_process(const rueda_host* host);

  /// Runs `work` on the thread and returns its status. Returns kTimeout if it is not through at the deadline; it may
  /// still run then, so everything it uses must outlive it. `least_looks` seconds have to pass one by one as well: a
  /// time in which the machine stood still counts as one. Not called on the thread itself.
  Status run(std::function<Status()> work, Deadline deadline, int least_looks = 0) RUEDA_EXCLUDES(mutex_);
  void add(std::shared_ptr<Mover> mover) RUEDA_EXCLUDES(mutex_);
  /// Takes `mover` off the thread: when it returns, `mover` is moved no more. Not called on the thread itself.
  void drop(const Mover* mover) RUEDA_EXCLUDES(mutex_);
  /// Ends a pause: there is something to move. Any thread.
  void wake() RUEDA_EXCLUDES(mutex_);
  /// From now on MPI is not called any more: a transfer is under way that cannot be taken back, or MPI has ended.
  void fail(const Status& why) RUEDA_EXCLUDES(mutex_);
  /// Ok, or the reason why MPI is not called any more.
  Status status() const RUEDA_EXCLUDES(mutex_);

  /// Makes sure that MPI is there. On the thread.
  Status start();
  /// On the thread.
  Retired& retired() { return retired_; }
  /// Calls `work` before MPI is finalised, if MPI may still be called then. On the thread.
  void at_end(std::function<void()> work) { at_end_.push_back(std::move(work)); }
  /// One pause of a wait on the thread itself, after `since` without progress.
  void pause(std::chrono::steady_clock::time_point since) RUEDA_EXCLUDES(mutex_);

 private:
  using Work = std::function<void()>;
  explicit MpiThread(const rueda_host* host);
  void loop();
  void rest(Mover::State state) RUEDA_EXCLUDES(mutex_);
  void sleep(std::chrono::nanoseconds limit) RUEDA_EXCLUDES(mutex_);
  void post(Work work) RUEDA_EXCLUDES(mutex_);
  bool do_work() RUEDA_EXCLUDES(mutex_);
  Status initialise();
  Status adopt();
  void watch_finalize();
  void finish();
  static int on_finalize(MPI_Comm, int, void*, void*);

  const rueda_host* host_;
  mutable core::Mutex mutex_;
  core::Condition changed_;
  std::deque<Work> work_ RUEDA_GUARDED_BY(mutex_);
  bool woken_ RUEDA_GUARDED_BY(mutex_) = false;
  Status failure_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
  // The thread's own.
  std::vector<std::shared_ptr<Mover>> movers_;
  std::chrono::steady_clock::time_point moved_;
  bool started_ = false;
  bool ours_ = false;  ///< to be finalised
  bool ended_ = false;
  Retired retired_;
  std::vector<std::function<void()>> at_end_;
};

}  // namespace rueda::mpi
