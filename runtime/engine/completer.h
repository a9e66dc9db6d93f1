#pragma once
#include <deque>
#include <memory>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// Runs callbacks: one thread, in completion order, with no baton, token or lock held.
/// Made and stopped by the engine's owner; `post` from any thread.
class Completer {
 public:
  Completer() = default;
  ~Completer() { stop(); }
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// Starts the thread; before an operation with a callback is taken. kSystem: the machine gives none.
  Status prepare() RUEDA_EXCLUDES(mutex_);
  /// The operation is done; its callback runs soon, where `prepare` has succeeded. After `stop` it runs at once, on the
  /// calling thread.
  void post(std::shared_ptr<Operation> operation) RUEDA_EXCLUDES(mutex_);
  /// Runs what is queued and joins, unless called on its own thread. Called once nothing posts any more.
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
