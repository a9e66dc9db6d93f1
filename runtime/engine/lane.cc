// A lane runs batches in the order of submission, on one of two threads. A token says which one:
//
//     submit, lane empty, inline batch ─▶ token to the turn ─▶ step_inline … finished ─▶ next inline batch, or release
//                                                            └▶ hand_over: back to the front of the queue
//     submit, anything else ───────────▶ queue ─▶ the thread takes the token, runs the batch, releases
//
// The token is `token_taken_`. Its holder alone touches the mesh, but for early lines, which are the baton's holder's.
// Only the turn holds it without running code, while its inline batch waits for peers between two turns; so the turn
// may not rest with it and hands over first.
#include "runtime/engine/lane.h"

#include "runtime/base/float_mode.h"
#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/engine/lane_cores.h"
#include "runtime/engine/late_output.h"

namespace rueda::core {
namespace {

/// Turns never block, so a batch that may block in the user's allocation callback, or that lies on a device, runs on
/// the thread, also if its algorithm could be stepped.
bool needs_thread(const Batch& batch) {
  for (const TensorPart* tensor : batch.tensors) {
    const OperationSpec& spec = tensor->operation->spec();
    if (needs_output(*tensor) || (tensor->arrives && spec.allocate != nullptr)) return true;
  }
  return !batch.inline_algorithm || batch.device != nullptr;
}

}  // namespace

/// Without a thread: a job of small operations needs none.
Lane::Lane(std::unique_ptr<Mesh> mesh, Executor& executor, LaneObserver& observer, ThreadSetup setup)
    : mesh_(std::move(mesh)),
      executor_(executor),
      observer_(observer),
      setup_(std::move(setup)),
      place_(setup_.follows != nullptr ? setup_.follows->cores() : std::vector<int>()) {}

void Lane::submit(std::unique_ptr<Batch>&& batch) {
  {
    MutexLock lock(mutex_);
    if (queue_.empty() && !token_taken_ && !needs_thread(*batch)) {
      token_taken_ = true;
      batch->at_once = true;
      inline_ = std::move(batch);
      return;
    }
    queue_.push_back(std::move(batch));
  }
  if (inline_ == nullptr) look_at_queue();  // else the turn has the token, and its end looks
}

/// An idle lane stays idle meanwhile: only the baton's holder submits.
void Lane::show_early(const Call& call) {
  {
    MutexLock lock(mutex_);
    if (!queue_.empty() || token_taken_) return;
  }
  const FloatMode mode;
  executor_.show_early(call, *mesh_);
}

/// The line may hold a later input by now, which then stays.
void Lane::hide_early(uint64_t stamp) {
  uint64_t shown = stamp + 1;
  mesh_->words(mesh_->rank()).early[stamp & 1].stamp.compare_exchange_strong(shown, 0);
}

bool Lane::step_inline() {
  if (inline_ == nullptr) return false;
  Batch& batch = *inline_;
  // At its first step and not at submission: queued batches have not started for reports and credits.
  if (!batch.started) {
    batch.started = true;
    mesh_->waits_for(Mesh::kNobody);
    observer_.batch_started(batch);
  }
  const FloatMode mode;  // the caller's thread may flush denormals or round otherwise
  mesh_->note_waits(batch.call.phases);
  Result<StepResult> result = executor_.step(batch.call, *mesh_, batch.step);
  if (mesh_->abort().raised()) result = mesh_->abort().why();  // else a step would wait for a dead peer for ever
  mesh_->note_waits(nullptr);
  if (result.ok() && result.value() == StepResult::kPending) return false;
  let_go(result.status());
  batch.distance = mesh_->distance();
  // The next batch may begin before the observer hears of this one: `inline_` is free, and the observer may take long.
  const std::unique_ptr<Batch> finished = std::move(inline_);
  bool for_thread = false;
  {
    MutexLock lock(mutex_);
    if (!queue_.empty() && !needs_thread(*queue_.front())) {
      inline_ = std::move(queue_.front());
      queue_.pop_front();
    } else {
      token_taken_ = false;
      for_thread = !queue_.empty();
    }
  }
  if (for_thread) look_at_queue();
  observer_.batch_finished(*finished, result.status());
  return true;
}

/// To the front: it was submitted before everything in the queue.
void Lane::hand_over() {
  if (inline_ == nullptr) return;
  inline_->at_once = false;
  {
    MutexLock lock(mutex_);
    queue_.push_front(std::move(inline_));
    token_taken_ = false;
  }
  look_at_queue();
}

bool Lane::idle() const {
  MutexLock lock(mutex_);
  return queue_.empty() && !token_taken_;
}

/// A batch that was handed over and has not been taken by the thread yet does not run.
bool Lane::runs(SetId set, uint64_t number) const {
  if (inline_ != nullptr) return inline_->set == set && inline_->number == number;
  MutexLock lock(mutex_);
  return token_taken_ && on_thread_ == std::pair(set, number);
}

bool Lane::drain(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!queue_.empty() || token_taken_) {
    if (deadline.passed()) return false;
    // The end of an inline batch does not notify, so this looks again after a second at the latest.
    changed_.wait_for(mutex_, deadline.left(std::chrono::seconds(1)));
  }
  return true;
}

void Lane::wake() { ring_always(mesh_->words(mesh_->rank()).bell); }

/// The destructor calls this too; a second call finds no thread to join.
void Lane::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

/// Starts the thread that runs the queue, or wakes it. If the machine has no thread to give, everything that waits has
/// failed.
void Lane::look_at_queue() {
  Status why;
  {
    MutexLock lock(mutex_);
    if (queue_.empty()) return;
    if (!thread_.joinable()) why = start_thread(thread_, setup_.name, [this] { run(); });
    if (why.ok()) return changed_.notify_all();
  }
  // Without the mutex: the observer may come back to this lane.
  while (const std::unique_ptr<Batch> refused = take_first()) {
    observer_.batch_started(*refused);
    observer_.batch_finished(*refused, why);
  }
}

/// Null if nothing is queued.
std::unique_ptr<Batch> Lane::take_first() {
  MutexLock lock(mutex_);
  if (queue_.empty()) return nullptr;
  std::unique_ptr<Batch> first = std::move(queue_.front());
  queue_.pop_front();
  return first;
}

/// The lane's thread. Without the mutex while a batch runs, so that turns can queue the next ones.
void Lane::run() {
  place_thread(setup_.name, setup_.cores);
  for (;;) {
    std::unique_ptr<Batch> batch;
    {
      MutexLock lock(mutex_);
      // After `stop` it still runs what is queued: those operations have waiters.
      while ((queue_.empty() || token_taken_) && !(stopping_ && queue_.empty())) changed_.wait(mutex_);
      if (queue_.empty()) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
      token_taken_ = true;
      on_thread_ = {batch->set, batch->number};
    }
    if (setup_.follows != nullptr) place_.stay_on(setup_.follows->core());
    const Status result = execute_safely(*batch);
    let_go(result);
    mesh_->note_waits(nullptr);
    batch->distance = mesh_->distance();
    tell(batch, result);
    batch.reset();  // before `drain` may return: nothing of the batch outlives the lane's idleness
    MutexLock lock(mutex_);
    token_taken_ = false;
    changed_.notify_all();
  }
}

/// Before anyone hears of a failed batch: the tensors go back to their callers then. An algorithm may have failed
/// between two waits for the channels, which therefore know nothing of it.
void Lane::let_go(const Status& result) {
  if (!result.ok() && mesh_->has_channels()) mesh_->channels().give_up(result);
}

void Lane::tell(std::unique_ptr<Batch>& batch, const Status& result) {
  try {
    if (batch->device == nullptr || batch->device->finished == nullptr) return observer_.batch_finished(*batch, result);
    batch->failure = result;
    observer_.batch_launched(std::move(batch));
  } catch (const std::exception& error) {  // the lane goes on: others wait for it
    log(LogLevel::kError, "{}: {}", setup_.name, failure_of(error).sentence());
  }
}

/// An exception, such as std::bad_alloc, ends the epoch and not the process: peers may be in the middle of the batch.
Status Lane::execute_safely(Batch& batch) {
  try {
    return execute(batch);
  } catch (const std::exception& error) {
    return failure_of(error);
  }
}

/// Outputs first, because a callback may be slow: the algorithm finds them ready. Inputs on a device need not be: the
/// algorithm puts its work behind their marks. A batch that was handed over has started already and goes on from its
/// last step.
Status Lane::execute(Batch& batch) {
  if (mesh_->abort().raised()) return mesh_->abort().why();
  if (!batch.started) {
    batch.started = true;
    mesh_->waits_for(Mesh::kNobody);
    observer_.batch_started(batch);
  }
  mesh_->note_waits(batch.call.phases);
  const Deadline deadline = batch.limit.time.count() > 0 ? Deadline::after(batch.limit.time) : Deadline::never();
  LateOutputs late;
  RUEDA_RETURN_IF_ERROR(late.place(batch));
  batch.call.slices = batch.storage;  // its addresses may have been filled in just now
  const Status result =
      batch.inline_algorithm ? run_steps(batch, deadline) : executor_.run(batch.call, *mesh_, deadline);
  if (batch.device != nullptr && batch.device->by_engine) batch.call.choice.algorithm = kEngineAlgorithm;
  return mesh_->abort().raised() ? mesh_->abort().why() : result;
}

/// Steps an inline batch to its end: `until` spins, then sleeps on the lane's bell, which peers ring.
Status Lane::run_steps(Batch& batch, Deadline deadline) {
  Status failure;
  const auto done = [&] {
    const Result<StepResult> result = executor_.step(batch.call, *mesh_, batch.step);
    failure = result.status();
    return !result.ok() || result.value() == StepResult::kDone;
  };
  RUEDA_RETURN_IF_ERROR(mesh_->until(done, deadline));
  return failure;
}

}  // namespace rueda::core
