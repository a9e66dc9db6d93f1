#pragma once
#include <span>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// A row of the data plane's table. Adding one: its own file, a line in `ops/cpu/table.cc`, a line in the build; tests
/// and benchmarks loop over the table.
struct Algorithm {
  const char* name;  ///< as in RUEDA_ALLREDUCE_ALGORITHM, rueda-perf and the timeline
  OpKind kind;
  /// Moves inputs and adds in the team's bracket (true), or moves partial sums (false: refused when deterministic, and
  /// for integer averages).
  bool canonical;
  /// Whether the row can serve the shape at all. Pure.
  bool (*fits)(const BatchShape& shape);
  /// The chunk plan for a shape that fits. Pure; `row` is filled in by the selector.
  AlgorithmChoice (*plan)(const BatchShape& shape);
  Status (*run)(const Call& call, Mesh& mesh, Deadline deadline);
  /// Non-null for rows that may run inside a turn: posts, checks, returns, never blocks.
  Result<StepResult> (*step)(const Call& call, Mesh& mesh, StepState& state);
  /// Computes adaptive sums, and nothing else does; all other rows compute all other operators.
  bool adasum = false;
};

/// All rows, the same on every rank of a build; an index in it is `AlgorithmChoice::row`. Plug-ins append theirs at
/// load.
std::span<const Algorithm> algorithms();

}  // namespace rueda::core
