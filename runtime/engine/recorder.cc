// Each step of an operation's way is noted where it happens, in two forms: a time in the flight record, which keeps the
// last operations one by one, and sums in the counters, which keep nothing else. The order of the calls is that of the
// steps, but a batch's last step comes before the caller's wake-up, so that a caller finds its own operation counted.
#include "runtime/engine/recorder.h"

#include <algorithm>

#include "runtime/engine/device_times.h"

namespace rueda::core {
namespace {

// The flight recorder reads records' numbers out of what it is given, so no list of them is made.
FlightRecorder::Id record_of_pointer(const TensorPart* tensor) { return tensor->record; }

}  // namespace

/// Before the inbox has it: from then on another thread may reach the next step at any moment.
void Recorder::enqueued(Operation& operation) {
  operation.submitted = SteadyClock::now();  // one time for all tensors: a group is submitted as one
  for (TensorPart& tensor : operation.tensors()) {
    const Request& request = tensor.request;
    const OpFacts facts{request.name,           request.set,        request.metadata.kind,
                        request.metadata.dtype, tensor.slice.count, tensor_bytes(tensor)};
    tensor.record = flight_.begin(facts, operation.submitted);
  }
  counters_.submitted.add(operation.tensors().size());
}

/// The operation was counted as submitted, so it has to be counted as ended too.
void Recorder::refused(Operation& operation, const Status& why) {
  for (const TensorPart& tensor : operation.tensors()) ended(tensor, why);
}

/// The times of the flight record tell where an operation is stuck: submitted, proposed, agreed, started or launched.
void Recorder::proposed(std::span<TensorPart* const> tensors, SteadyClock::time_point now) {
  flight_.update(tensors, record_of_pointer,
                 [now](OpRecord& record, const TensorPart*) { record.reach(OpState::kProposed, now); });
}

/// One time for the whole batch: its tensors were agreed by one verdict.
void Recorder::agreed(Batch& batch) {
  batch.agreed = SteadyClock::now();
  std::chrono::nanoseconds together{0}, longest{0};
  for (const TensorPart* tensor : batch.tensors) {
    const auto took = batch.agreed - tensor->operation->submitted;
    together += took;
    longest = std::max<std::chrono::nanoseconds>(longest, took);
  }
  const auto change = [&batch](OpRecord& record, const TensorPart*) {
    record.reach(OpState::kAgreed, batch.agreed);
    record.batch = batch.number;
    record.algorithm = batch.call.choice.algorithm;
  };
  flight_.update(batch.tensors, record_of_pointer, change, [&] {
    counters_.batches.add_alone(1);
    counters_.batched.add_alone(batch.tensors.size());
    counters_.negotiation.add_alone(together);
  });
  counters_.longest_negotiation.see(longest);
  if (timeline_.on()) timeline_.agreed(batch);
}

/// The time from agreement to here is the queue's: the batch waited for its lane. One that did not wait starts in the
/// turn that agreed it, and needs no reading of the clock.
void Recorder::started(Batch& batch) {
  batch.begun = batch.at_once ? batch.agreed : SteadyClock::now();
  if (timeline_.on()) {
    batch.phases.start();
    batch.call.phases = &batch.phases;  // else null, and algorithms note nothing
    if (batch.device != nullptr) batch.device->times = std::make_shared<DeviceTimes>();
  }
  flight_.update(
      batch.tensors, record_of_pointer,
      [&batch](OpRecord& record, const TensorPart*) { record.reach(OpState::kStarted, batch.begun); },
      [&] { counters_.queue.add_alone(batch.begun - batch.agreed); });
}

void Recorder::launched(const Batch& batch) {
  const auto now = SteadyClock::now();
  flight_.update(batch.tensors, record_of_pointer, [&batch, now](OpRecord& record, const TensorPart*) {
    record.algorithm = batch.call.choice.algorithm;
    if (batch.failure.ok() && !record.over()) record.reach(OpState::kLaunched, now);
  });
}

SteadyClock::time_point Recorder::finished(const Batch& batch, const Status& result) {
  const auto now = SteadyClock::now();
  // A tensor may fail alone, for lack of memory, in a batch that went well.
  const auto failure_of = [&result](const TensorPart& tensor) {
    return result.ok() ? tensor.failure.code() : result.code();
  };
  uint64_t bytes = 0, failed = 0;
  const auto change = [&](OpRecord& record, const TensorPart* tensor) {
    record.error = failure_of(*tensor);
    record.algorithm = batch.call.choice.algorithm;
    record.reach(record.error == Code::kOk ? OpState::kFinished : OpState::kFailed, now);
  };
  for (const TensorPart* tensor : batch.tensors) {
    bytes += tensor_bytes(*tensor);
    if (failure_of(*tensor) != Code::kOk) ++failed;
  }
  flight_.update(batch.tensors, record_of_pointer, change, [&] {
    counters_.finished.add_alone(batch.tensors.size() - failed);
    counters_.failed.add_alone(failed);
    // Times and bytes of a failed batch say nothing about its algorithm.
    if (result.ok()) count_work(batch, now - batch.begun, bytes);
  });
  if (result.ok()) {
    timeline_.finished(batch, now);
  } else {
    timeline_.failed(batch);
  }
  return now;
}

void Recorder::count_work(const Batch& batch, std::chrono::nanoseconds took, uint64_t bytes) {
  Counters::Kind& kind = counters_.kinds[static_cast<size_t>(batch.call.kind) % Counters::kKinds];
  kind.tensors.add_alone(batch.tensors.size());
  kind.bytes.add_alone(bytes);
  Counters::Algorithm& algorithm = counters_.algorithms[batch.call.choice.algorithm];
  algorithm.batches.add_alone(1);
  algorithm.bytes.add_alone(bytes);
  algorithm.time.add_alone(took);
  counters_.run.add_alone(took);
}

void Recorder::ended(const TensorPart& tensor, const Status& how) {
  const auto now = SteadyClock::now();
  const TensorPart* const one[] = {&tensor};  // the flight recorder updates ranges under one lock
  const auto change = [&](OpRecord& record, const TensorPart*) {
    record.error = how.code();
    record.reach(how.ok() ? OpState::kFinished : OpState::kFailed, now);
  };
  flight_.update(one, record_of_pointer, change,
                 [&] { (how.ok() ? counters_.finished : counters_.failed).add_alone(1); });
}

/// Time in which a caller's thread did nothing else, spins and own turns included.
void Recorder::waited(SteadyClock::time_point since) {
  counters_.waits.add(1);
  counters_.wait.add(SteadyClock::now() - since);
}

/// Agreement keeps the sums itself; these are copies for readers of the counters.
void Recorder::proposals(uint64_t by_id, uint64_t in_full) {
  counters_.cache_hits.set(by_id);
  counters_.cache_misses.set(in_full);
}

}  // namespace rueda::core
