// What lanes and the finisher tell the engine of batches, and how an operation ends:
//
//     lane ─▶ started ─▶ finished ─▶ each tensor ─▶ the operation is done with its last tensor
//                  └──▶ launched ─▶ finisher ─▶ finished            if a device has still to finish it
//
// In host memory a batch gives its credit back when it starts, on a device when the device has finished it.
#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/engine/engine.h"

namespace rueda::core {
namespace {

/// A step without which an operation still has to end: a waiter without a record is better than one that waits for
/// ever. Only the lack of memory makes it fail.
template <typename Step>
void quietly(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    log(LogLevel::kError, "at the end of an operation: {}", failure_of(error).sentence());
  }
}

}  // namespace

/// Two lanes may begin batches of one set, one in host memory and one on a device.
void Engine::batch_started(Batch& batch) {
  recorder_.started(batch);
  uint64_t known = batch.team->started.load();
  while (known <= batch.number && !batch.team->started.compare_exchange_weak(known, batch.number + 1)) {
  }
  if (batch.device == nullptr) give_credit_back(*batch.team);
}

/// Rank 0 may need it to plan the next batch, and if no thread of this process looks, the credit would wait here.
void Engine::give_credit_back(TeamState& team) {
  team.credits.fetch_add(1);
  if (team.lowest && signals_.credit_wanted.load() && baton_.nobody_looks()) ring_coordinator();
}

/// A failure ends the epoch now; the loans of the tensors end when the device lets go of them.
void Engine::batch_launched(std::unique_ptr<Batch> batch) {
  recorder_.launched(*batch);
  if (!batch->failure.ok()) {
    if (!abort_.raised()) fail_lane_safely(*batch, batch->failure);
  } else {
    launch_all(*batch);
  }
  lanes_.finisher().add(std::move(batch));
}

/// An operation that there was no memory for is not launched for its waiters: they wait for its end, which comes.
void Engine::launch_all(const Batch& batch) {
  quietly([&] {
    for (TensorPart* tensor : batch.tensors) launch(*tensor, batch.device->finished);
  });
}

/// Names are free before a waiter can see that the operation is launched: a program that waits with its stream submits
/// the same names in its next step, while the device is still busy with this one. What has failed on this rank alone,
/// such as an output of the wrong shape, is never launched for its waiters: they wait for the end, which says why.
void Engine::launch(TensorPart& tensor, const std::shared_ptr<const DeviceMark>& mark) {
  Operation& operation = *tensor.operation;
  if (!tensor.failure.ok() || !operation.launch_tensor(mark)) return;
  TensorPart* const launched = &tensor;
  names_.release({&launched, 1});
  operation.names_free = true;
  operation.launched();
}

void Engine::fail_lane_safely(const Batch& batch, const Status& result) {
  try {
    fail_lane(batch, result);
  } catch (const std::exception& error) {
    epoch_over(own_failure(error));
  }
}

/// On the finisher's thread, while a device has the batch.
void Engine::check_devices(const Batch& batch) {
  if (abort_.raised()) return;
  const Status found = executor_->check_devices();
  if (!found.ok()) fail_lane_safely(batch, found);
}

/// If the epoch is over, its reason replaces the batch's own: a broken stream says less than the death that broke it.
/// A sentence that begins with that reason says more.
void Engine::batch_finished(Batch& batch, const Status& result) {
  // First the end of the epoch, then the callers: one that is told of a failure must find the epoch over.
  if (!result.ok() && !abort_.raised()) fail_lane_safely(batch, result);
  const bool replaced = !result.ok() && abort_.raised() && !result.sentence().starts_with(abort_.why().sentence());
  const Status final_result = replaced ? abort_.why() : result;
  quietly([&] {
    if (!final_result.ok()) take_from_peers(batch);
    note_time(batch, recorder_.finished(batch, final_result), final_result);
  });
  if (batch.device != nullptr) give_credit_back(*batch.team);
  // In place: those whose operations are over come first, and the rest is needed no more.
  size_t over = 0;
  for (TensorPart* tensor : batch.tensors) {
    if (end_tensor(*tensor, final_result.ok() ? tensor->failure : final_result)) batch.tensors[over++] = tensor;
  }
  finish({batch.tensors.data(), over});
}

/// From the verdict on, so that it counts if another thread has to wake up for a batch; but not while the batch before
/// it still ran. If another batch of the set ended while this one ran, its time is not known: a device's ran beside it,
/// or another thread was told late.
void Engine::note_time(const Batch& batch, SteadyClock::time_point now, const Status& result) {
  const SteadyClock::time_point before = batch.team->ended.exchange(now, std::memory_order_relaxed);
  const uint64_t trial = batch.call.choice.trial;
  if (trial == 0 || !result.ok()) return;
  trial_times_.show(trial, {batch.agreed, before, now, before <= batch.begun});
  if (batch.team->lowest) trial_times_.await(batch.set, {trial, {}, batch.distance}, batch.team->team.ranks);
}

/// Ends without a batch: a join, an error verdict, or the end of the epoch. If the epoch ends in order on all ranks,
/// this one has said goodbye without a shutdown, and the sentence tells why.
void Engine::tensor_finished(TensorPart& tensor, const Status& status) {
  const bool by_goodbye = status.code() == Code::kShutDown && status.rank() == plan_.rank && !ended_.load();
  const Status why = by_goodbye ? inbox_.closed() : status;
  quietly([&] { recorder_.ended(tensor, why); });
  TensorPart* const ended = &tensor;
  if (end_tensor(tensor, why)) finish({&ended, 1});
}

/// Gives the operation this tensor's result. A failed tensor's sentence names it, unless it does already. Returns true
/// for the last tensor of the operation.
bool Engine::end_tensor(TensorPart& tensor, const Status& status) {
  Operation& operation = *tensor.operation;
  Status named = status;
  quietly([&] {
    // A mismatch's sentence is the same on all ranks, and is about all of them.
    const bool names_it = status.ok() || status.code() == Code::kMismatch ||
                          status.sentence().find(describe(tensor)) != std::string::npos;
    if (!names_it) named = Status(status.code(), describe(tensor) + " failed: " + status.sentence(), status.rank());
  });
  return operation.finish_tensor(named);
}

/// Completes the operations of these tensors. What they held is free before a waiter can see one done: the caller may
/// submit the same name at once.
void Engine::finish(std::span<TensorPart* const> last) {
  if (last.empty()) return;
  names_.release(last);
  for (const TensorPart* tensor : last) {
    Operation& operation = *tensor->operation;
    sets_.leave(operation.set(), operation.kind());
    const std::shared_ptr<Operation> self = std::move(operation.in_flight);  // `complete` may wake its last owner
    quietly([&] {
      operation.complete();
      if (operation.spec().callback) completer_.post(self);
    });
  }
}

}  // namespace rueda::core
