#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Runs what is posted, in order, on one thread that starts with the first task. It is for work that may block, such as
/// a function of the user's, or a disk. Its owner makes and stops it; any thread calls `post`.
class TaskThread {
 public:
  TaskThread() = default;
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  /// Queues a task; never blocks. After `stop` it drops the task. Returns kSystem, and drops it too, if the system
  /// gives no thread. What a task throws is logged.
  Status post(std::function<void()> work);
  /// Drops what is queued, waits for the task that runs, and joins. Returns false if that task still runs at the
  /// deadline: its thread is detached and ends after it, so the task must own all it uses.
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
