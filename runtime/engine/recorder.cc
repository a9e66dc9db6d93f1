#include "runtime/engine/recorder.h"

namespace rueda::core {
namespace {

uint64_t bytes_of(const Member& member) {
  return static_cast<uint64_t>(member.slice.count) * size_of(member.request.metadata.dtype);
}

FlightRecorder::Id record_of(const Member& member) { return member.record; }
FlightRecorder::Id record_of_pointer(const Member* member) { return member->record; }

}  // namespace

void Recorder::enqueued(Operation& operation) {
  operation.submitted = SteadyClock::now();
  for (Member& member : operation.members()) {
    const Request& request = member.request;
    const OpFacts facts{request.name,           request.set,        request.metadata.kind,
                        request.metadata.dtype, member.slice.count, bytes_of(member)};
    member.record = flight_.begin(facts, operation.submitted);
  }
  counters_.submitted.add(operation.members().size());
}

void Recorder::refused(Operation& operation, const Status& why) {
  for (const Member& member : operation.members()) ended(member, why);
}

void Recorder::proposed(const Operation& operation) {
  const auto now = SteadyClock::now();
  flight_.update(operation.members(), record_of,
                 [now](OpRecord& record, const Member&) { record.reach(OpState::kProposed, now); });
}

void Recorder::agreed(Batch& batch) {
  batch.agreed = SteadyClock::now();
  flight_.update(batch.members, record_of_pointer, [&batch](OpRecord& record, const Member*) {
    record.reach(OpState::kAgreed, batch.agreed);
    record.batch = batch.number;
    record.row = batch.call.choice.row;
  });
  if (timeline_.on()) timeline_.agreed(batch);
  counters_.batches.add(1);
  counters_.batched.add(batch.members.size());
  for (const Member* member : batch.members) {
    const auto took = batch.agreed - member->operation->submitted;
    counters_.negotiation.add(took);
    counters_.longest_negotiation.see(took);
  }
}

void Recorder::started(Batch& batch) {
  batch.begun = SteadyClock::now();
  if (timeline_.on()) {
    batch.phases.start();
    batch.call.phases = &batch.phases;
  }
  flight_.update(batch.members, record_of_pointer,
                 [&batch](OpRecord& record, const Member*) { record.reach(OpState::kStarted, batch.begun); });
  counters_.queue.add(batch.begun - batch.agreed);
}

void Recorder::finished(const Batch& batch, const Status& result) {
  const auto now = SteadyClock::now();
  const auto failure_of = [&result](const Member& member) {
    return result.ok() ? member.failure.code() : result.code();
  };
  flight_.update(batch.members, record_of_pointer, [&](OpRecord& record, const Member* member) {
    record.error = failure_of(*member);
    record.reach(record.error == Code::kOk ? OpState::kFinished : OpState::kFailed, now);
  });
  uint64_t bytes = 0;
  for (const Member* member : batch.members) {
    bytes += bytes_of(*member);
    (failure_of(*member) == Code::kOk ? counters_.finished : counters_.failed).add(1);
  }
  if (!result.ok()) return timeline_.failed(batch);
  timeline_.finished(batch, now);
  Counters::Kind& kind = counters_.kinds[static_cast<size_t>(batch.call.kind) % Counters::kKinds];
  kind.tensors.add(batch.members.size());
  kind.bytes.add(bytes);
  Counters::Row& row = counters_.rows[batch.call.choice.row];
  row.batches.add(1);
  row.bytes.add(bytes);
  row.time.add(now - batch.begun);
  counters_.run.add(now - batch.begun);
}

void Recorder::ended(const Member& member, const Status& how) {
  const auto now = SteadyClock::now();
  const Member* const one[] = {&member};
  flight_.update(one, record_of_pointer, [&](OpRecord& record, const Member*) {
    record.error = how.code();
    record.reach(how.ok() ? OpState::kFinished : OpState::kFailed, now);
  });
  (how.ok() ? counters_.finished : counters_.failed).add(1);
}

void Recorder::waited(SteadyClock::time_point since) {
  counters_.waits.add(1);
  counters_.wait.add(SteadyClock::now() - since);
}

void Recorder::proposals(uint64_t by_id, uint64_t in_full) {
  counters_.cache_hits.set(by_id);
  counters_.cache_misses.set(in_full);
}

}  // namespace rueda::core
