#pragma once
#include <deque>
#include <memory>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// Runs callbacks on one thread, in completion order, with no baton, token or lock held. The engine owns it and stops
/// it; any thread calls `post`.
class Completer {
 public:
  Completer() = default;
  ~Completer() { stop(); }
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// Starts the thread, before the first operation with a callback is taken. Returns kSystem if the machine has no
  /// thread to give.
  Status prepare() RUEDA_EXCLUDES(mutex_);
  /// The operation is done, and its callback runs soon; `prepare` has succeeded. After `stop` the callback runs at
  /// once, on the calling thread.
  void post(std::shared_ptr<Operation> operation) RUEDA_EXCLUDES(mutex_);
  /// Runs what is queued and joins, unless called on the completer's own thread. Called when no thread posts any more.
  void stop() RUEDA_EXCLUDES(mutex_);
  /// Whether the calling thread runs a callback now, of any engine.
  static bool in_callback();

 private:
  void run() RUEDA_EXCLUDES(mutex_);

  Mutex mutex_;
  Condition filled_;
  std::deque<std::shared_ptr<Operation>> queue_ RUEDA_GUARDED_BY(mutex_);
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rueda::core
