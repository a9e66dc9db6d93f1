#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/diagnosis/counters.h"
#include "runtime/diagnosis/flight_recorder.h"
#include "runtime/engine/lane.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/timeline.h"

namespace rueda::core {

/// Hears from the engine what happens to operations, a call at each step of their way, and keeps the flight record and
/// the counters. Each function runs on the thread on which the step happens; none blocks for longer than a copy. The
/// engine owns it.
class Recorder {
 public:
  /// `timeline` outlives it.
  explicit Recorder(Timeline& timeline) : timeline_(timeline) {}
  /// The caller's thread, before the inbox: sets `submitted` and names the tensors' records.
  void enqueued(Operation& operation);
  /// The caller's thread: the inbox did not take it.
  void refused(Operation& operation, const Status& why);
  /// Rank 0 is about to be told.
  void proposed(std::span<TensorPart* const> tensors, SteadyClock::time_point now) RUEDA_ON(baton_holder);
  /// A batch's verdict has come: sets `agreed`.
  void agreed(Batch& batch) RUEDA_ON(baton_holder);
  /// The thread that begins the batch, its lane's or the baton's holder: sets `begun`.
  void started(Batch& batch);
  /// The batch is launched on a device, and its algorithm is known.
  void launched(const Batch& batch);
  /// The thread that ran its last step, before any waiter is told. Returns the time.
  SteadyClock::time_point finished(const Batch& batch, const Status& result);
  /// An operation ended without a batch: by an error, or a join.
  void ended(const TensorPart& tensor, const Status& how);
  /// A caller has waited since then.
  void waited(SteadyClock::time_point since);
  /// Proposals so far: by id, and in full.
  void proposals(uint64_t by_id, uint64_t in_full) RUEDA_ON(baton_holder);

  const Counters& counters() const { return counters_; }
  const FlightRecorder& flight() const { return flight_; }
  SteadyClock::time_point since() const { return since_; }

 private:
  /// Under the flight record's mutex.
  void count_work(const Batch& batch, std::chrono::nanoseconds took, uint64_t bytes);

  Timeline& timeline_;
  const SteadyClock::time_point since_ = SteadyClock::now();
  Counters counters_;
  FlightRecorder flight_;
};

}  // namespace rueda::core
