#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Runs what is posted, in order, on one thread that starts with the first job. It is for work that may block, such as
/// a function of the user's, or a disk. Its owner makes and stops it; any thread calls `post`.
class Worker {
 public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Queues a job; never blocks. After `stop` it drops the job. Returns kSystem, and drops it too, if the system gives
  /// no thread. What a job throws is logged.
  Status post(std::function<void()> work);
  /// Drops what is queued, waits for the job that runs, and joins. Returns false if that job still runs at the
  /// deadline: its thread is detached and ends after it, so the job must own all it uses.
  bool stop(Deadline deadline = Deadline::never());

 private:
  struct State {
    Mutex mutex;
    Condition changed;
    std::deque<std::function<void()>> queue RUEDA_GUARDED_BY(mutex);
    bool stopping RUEDA_GUARDED_BY(mutex) = false;
    bool ended RUEDA_GUARDED_BY(mutex) = false;
  };
  static void run(State& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;  ///< started under the state's mutex
};

}  // namespace rueda::core
