#pragma once
#include <span>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// One way to run one kind of operation: an entry of the data plane's table. To add one, write its own file, a line in
/// `ops/cpu/table.cc` and a line in the build; tests and benchmarks loop over the table.
struct Algorithm {
  const char* name;  ///< as in RUEDA_ALLREDUCE_ALGORITHM, rueda-perf and the timeline
  OpKind kind;
  /// True if it moves inputs and adds them in the team's bracket. False if it moves partial sums: the selector refuses
  /// it in deterministic mode and for averages of integers.
  bool canonical;
  /// Whether the algorithm can serve the shape at all. Pure.
  bool (*fits)(const BatchShape& shape);
  /// The chunk plan for a shape that fits. Pure; the selector fills in `AlgorithmChoice::algorithm`.
  AlgorithmChoice (*plan)(const BatchShape& shape);
  /// Runs a batch to its end on this rank's lane. All members of the team run it with the same plan and stamp.
  Status (*run)(const Call& call, Mesh& mesh, Deadline deadline);
  /// Null unless the algorithm may run inside a turn: posts what it can, checks, returns, never blocks. Called again
  /// until it returns kDone.
  Result<StepResult> (*step)(const Call& call, Mesh& mesh, StepState& state);
  /// True if it computes adaptive sums and no other operator; all other algorithms compute all other operators.
  bool adasum = false;
  /// The kind of device (rueda_tensor.device) in whose memory it can work itself, orders itself after `call.device`'s
  /// marks and leaves its own. With tensors of other devices it works on the host, on copies (ops/staging.h).
  int32_t device = -1;
  /// Null unless the algorithm can use an input that a rank has shown before the batch is agreed: shows it. The call's
  /// stamp is a guess, and its batch may be another one or none. Never blocks.
  void (*show_early)(const Call& call, Mesh& mesh) = nullptr;
};

/// All algorithms of this build, the same on every rank; an index in it is `AlgorithmChoice::algorithm`. A data plane
/// appends those of plug-ins to its own copy.
std::span<const Algorithm> algorithms();

}  // namespace rueda::core
