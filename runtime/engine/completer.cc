// Callbacks run on one thread of their own, so that a slow or blocked callback stops other callbacks and nothing else.
// An operation is complete before its callback is queued: `done` and `wait` never wait for callbacks.
#include "runtime/engine/completer.h"

#include <exception>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"

namespace rueda::core {
namespace {

/// A depth and no flag: after `stop` a callback can run inside another one, on the same thread.
thread_local int callback_depth = 0;

/// An exception is logged: it would end the process, and the operation itself went well.
void run_callback(Operation& operation) {
  ++callback_depth;
  try {
    operation.spec().callback(operation.status().code());
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a completion callback threw \"{}\"; callbacks must not throw", error.what());
  } catch (...) {
    log(LogLevel::kError, "a completion callback threw; callbacks must not throw");
  }
  --callback_depth;
}

}  // namespace

bool Completer::in_callback() { return callback_depth > 0; }

/// With the first callback: most programs use none, and need no thread for them.
Status Completer::prepare() {
  MutexLock lock(mutex_);
  if (stopping_ || thread_.joinable()) return {};
  return start_thread(thread_, "for callbacks", [this] { run(); });
}

void Completer::post(std::shared_ptr<Operation> operation) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      queue_.push_back(std::move(operation));
      filled_.notify_one();
      return;
    }
  }
  run_callback(*operation);  // stopping: the thread takes no more
}

void Completer::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    filled_.notify_one();
  }
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    // A callback has called exit(), which destroys sessions on this very thread and does not come back.
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Completer::run() {
  for (;;) {
    std::shared_ptr<Operation> operation;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) filled_.wait(mutex_);
      if (queue_.empty()) return;  // stopping, and everything queued has run
      operation = std::move(queue_.front());
      queue_.pop_front();
    }
    run_callback(*operation);  // without the mutex: a callback may submit, and that posts
  }
}

}  // namespace rueda::core
