#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"

namespace rueda::core {

/// Runs what is posted, in order, on one thread that starts with the first of it: for what may block, such as a
/// function of the user's, or a disk. Made and stopped by the engine's owner; `post` from any thread.
class Worker {
 public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// After `stop` nothing runs.
  void post(std::function<void()> work);
  /// Drops what is queued, waits for what runs, joins. False: that had no end by the deadline; the thread is left to it
  /// and ends behind it, so what it uses has to be its own.
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
