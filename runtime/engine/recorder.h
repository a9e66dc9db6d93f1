#pragma once
#include <cstdint>
#include <string>

#include "runtime/diagnosis/counters.h"
#include "runtime/diagnosis/flight_recorder.h"
#include "runtime/engine/lane.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/timeline.h"

namespace rueda::core {

/// Where the engine tells what happens to operations, a call at each step of their way. Keeps the flight record and the
/// counters. Each function runs on the thread on which the thing happens; none blocks for longer than a copy.
class Recorder {
 public:
  /// `timeline` outlives it.
  explicit Recorder(Timeline& timeline) : timeline_(timeline) {}
  /// The caller's thread, before the inbox: sets `submitted` and names the tensors' records.
  void enqueued(Operation& operation);
  /// The inbox did not take it.
  void refused(Operation& operation, const Status& why);
  /// The baton's holder: rank 0 is about to be told.
  void proposed(const Operation& operation);
  /// The baton's holder, with a batch's verdict.
  void agreed(Batch& batch);
  /// Whoever begins the batch: its lane's thread, or the turn.
  void started(Batch& batch);
  /// Whoever ran its last step, before anybody is told.
  void finished(const Batch& batch, const Status& result);
  /// An end without a batch: an error, or that of a join.
  void ended(const TensorPart& tensor, const Status& how);
  /// A caller has waited, since then.
  void waited(SteadyClock::time_point since);
  /// Proposals so far: by id, and in full.
  void proposals(uint64_t by_id, uint64_t in_full);

  const Counters& counters() const { return counters_; }
  const FlightRecorder& flight() const { return flight_; }
  SteadyClock::time_point since() const { return since_; }

 private:
  Timeline& timeline_;
  const SteadyClock::time_point since_ = SteadyClock::now();
  Counters counters_;
  FlightRecorder flight_;
};

}  // namespace rueda::core
