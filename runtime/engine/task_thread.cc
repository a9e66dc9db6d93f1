// Runs tasks in order on one thread, and lets go of a task that does not end.
//
// State and thread part in the end: the thread shares the state by pointer, so a TaskThread can be destroyed while a
// task that a disk holds still runs. Such a task must own everything that it uses.
#include "runtime/engine/task_thread.h"

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"

namespace rueda::core {

Status TaskThread::post(std::function<void()> work) {
  MutexLock lock(state_->mutex);
  if (state_->stopping) return {};
  // With the first task: most sessions never need the thread.
  if (!thread_.joinable()) {
    Status started = start_thread(thread_, "for work that may block", [state = state_] { run(*state); });
    if (!started.ok()) return started;
  }
  state_->queue.push_back(std::move(work));
  state_->changed.notify_all();
  return {};
}

bool TaskThread::stop(Deadline deadline) {
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    if (!thread_.joinable()) return true;
    state_->changed.notify_all();
    while (!state_->ended && !deadline.passed()) {
      state_->changed.wait_for(state_->mutex, deadline.left(std::chrono::seconds(60)));
    }
    if (!state_->ended) {
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return true;
}

/// Jobs that are still queued when it stops are dropped: they would use what the owner frees.
void TaskThread::run(State& state) {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(state.mutex);
      while (state.queue.empty() && !state.stopping) state.changed.wait(state.mutex);
      if (state.stopping) break;
      work = std::move(state.queue.front());
      state.queue.pop_front();
    }
    try {
      work();  // without the mutex: it may post
    } catch (const std::exception& error) {
      log(LogLevel::kError, "work in the background has failed: {}",
          failure_of(error).sentence());  // the next task may go well
    }
  }
  // `stop` waits for this word and not in join, which has no deadline.
  MutexLock lock(state.mutex);
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace rueda::core
