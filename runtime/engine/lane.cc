#include "runtime/engine/lane.h"

#include <fmt/format.h>

#include <system_error>

#include "runtime/base/float_mode.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/late_output.h"

namespace rueda::core {
namespace {

bool needs_thread(const Batch& batch) {
  for (const TensorPart* tensor : batch.tensors) {
    const OperationSpec& spec = tensor->operation->spec();
    const bool calls_back = needs_output(*tensor) || (tensor->arrives && spec.allocate != nullptr);
    if (spec.device->kind != cpu_device().kind || calls_back) return true;
  }
  return !batch.inline_algorithm;
}

/// Nobody rings for a device, so it is asked again after each of these.
constexpr std::chrono::microseconds kDevicePoll{100};

Status until_passed(Mesh& mesh, const DeviceRow& device, uint64_t token, Deadline deadline, int32_t& passed) {
  for (;;) {
    const auto ready = [&] { return (passed = device.poll(device.context, token)) != 0; };
    const Status status = mesh.until(ready, deadline.earlier(Deadline::after(kDevicePoll)));
    if (status.ok() || status.code() != Code::kTimeout || deadline.passed()) return status;
  }
}

}  // namespace

Lane::Lane(std::unique_ptr<Mesh> mesh, Executor& executor, LaneObserver& observer, ThreadSetup setup)
    : mesh_(std::move(mesh)), executor_(executor), observer_(observer), setup_(std::move(setup)) {}

void Lane::submit(std::unique_ptr<Batch> batch) {
  {
    MutexLock lock(mutex_);
    if (queue_.empty() && !token_taken_ && !needs_thread(*batch)) {
      token_taken_ = true;
      inline_ = std::move(batch);
      return;
    }
    queue_.push_back(std::move(batch));
  }
  if (inline_ == nullptr) look_at_queue();
}

bool Lane::step_inline() {
  if (inline_ == nullptr) return false;
  Batch& batch = *inline_;
  if (!batch.started) {
    batch.started = true;
    mesh_->waits_for(Mesh::kNobody);
    observer_.batch_started(batch);
  }
  const FloatMode mode;
  mesh_->note_waits(batch.call.phases);
  Result<StepResult> result = executor_.step(batch.call, *mesh_, batch.step);
  if (mesh_->abort().raised()) result = mesh_->abort().why();
  mesh_->note_waits(nullptr);
  if (result.ok() && result.value() == StepResult::kPending) return false;
  const std::unique_ptr<Batch> finished = std::move(inline_);
  {
    MutexLock lock(mutex_);
    if (!queue_.empty() && !needs_thread(*queue_.front())) {
      inline_ = std::move(queue_.front());
      queue_.pop_front();
    } else {
      token_taken_ = false;
    }
  }
  if (inline_ == nullptr) look_at_queue();
  observer_.batch_finished(*finished, result.status());
  return true;
}

void Lane::hand_over() {
  if (inline_ == nullptr) return;
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

bool Lane::runs(SetId set, uint64_t number) const {
  if (inline_ != nullptr) return inline_->set == set && inline_->number == number;
  MutexLock lock(mutex_);
  return token_taken_ && on_thread_ == std::pair(set, number);
}

bool Lane::drain(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!queue_.empty() || token_taken_) {
    if (deadline.passed()) return false;
    changed_.wait_for(mutex_, deadline.left(std::chrono::seconds(1)));
  }
  return true;
}

void Lane::wake() { ring_always(mesh_->words(mesh_->rank()).bell); }

void Lane::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

/// The thread that runs the queue, unless something runs inline before it; where there can be none, what waits has
/// failed.
void Lane::look_at_queue() {
  std::deque<std::unique_ptr<Batch>> refused;
  Status why;
  {
    MutexLock lock(mutex_);
    if (queue_.empty()) return;
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.notify_all();
      return;
    } catch (const std::system_error& error) {
      why = Status(Code::kSystem, fmt::format("cannot start the thread of a lane: {}", error.what()));
      refused.swap(queue_);
    }
  }
  for (const auto& batch : refused) {
    observer_.batch_started(*batch);
    observer_.batch_finished(*batch, why);
  }
}

void Lane::run() {
  place_thread(setup_.name, setup_.cores);
  for (;;) {
    std::unique_ptr<Batch> batch;
    {
      MutexLock lock(mutex_);
      while ((queue_.empty() || token_taken_) && !(stopping_ && queue_.empty())) changed_.wait(mutex_);
      if (queue_.empty()) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
      token_taken_ = true;
      on_thread_ = {batch->set, batch->number};
    }
    const Status result = execute(*batch);
    mesh_->note_waits(nullptr);
    observer_.batch_finished(*batch, result);
    batch.reset();
    MutexLock lock(mutex_);
    token_taken_ = false;
    changed_.notify_all();
  }
}

Status Lane::execute(Batch& batch) {
  if (mesh_->abort().raised()) return mesh_->abort().why();
  if (!batch.started) {
    batch.started = true;
    mesh_->waits_for(Mesh::kNobody);
    observer_.batch_started(batch);
  }
  mesh_->note_waits(batch.call.phases);
  const Deadline deadline = batch.limit.time.count() > 0 ? Deadline::after(batch.limit.time) : Deadline::never();
  RUEDA_RETURN_IF_ERROR(prepare(batch, deadline));
  LateOutputs late;
  RUEDA_RETURN_IF_ERROR(late.place(batch));
  batch.call.slices = batch.storage;
  const Status result =
      batch.inline_algorithm ? run_steps(batch, deadline) : executor_.run(batch.call, *mesh_, deadline);
  return mesh_->abort().raised() ? mesh_->abort().why() : result;
}

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

Status Lane::prepare(Batch& batch, Deadline deadline) {
  for (TensorPart* tensor : batch.tensors) {
    Operation& operation = *tensor->operation;
    const DeviceRow& device = *operation.spec().device;
    if (operation.token == 0) continue;
    if (device.order_after(device.context, operation.token, nullptr) != 0) {
      return Status(Code::kSystem,
                    std::string("device ") + device.name + " could not order the batch after its inputs");
    }
    int32_t passed = 0;
    RUEDA_RETURN_IF_ERROR(until_passed(*mesh_, device, operation.token, deadline, passed));
    if (passed < 0) return Status(Code::kSystem, std::string("device ") + device.name + " failed before the batch ran");
  }
  return {};
}

}  // namespace rueda::core
