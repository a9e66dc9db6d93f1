#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "ops/algorithm.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// The executor over the table: names a row by `select_algorithm`, runs it by its functions, and tells the log (at
/// info) of each row's first choice. Immutable but for that once the epoch forms, so `select`, `runs_inline` and
/// `algorithm_name` may be called on any thread.
class DataPlane : public Executor {
 public:
  explicit DataPlane(const Settings& settings);
  /// Appends a plug-in's rows; what they point to outlives the executor. Before the executor is used, on one thread,
  /// and the same rows in the same order on all ranks. kInvalidArgument: a name of the same kind is taken, or there are
  /// more than 255 rows.
  Status add_rows(std::span<const Algorithm> rows);
  std::span<const Algorithm> rows() const { return rows_; }

  Result<AlgorithmChoice> select(const BatchShape& shape) const override;
  bool runs_inline(const AlgorithmChoice& choice) const override;
  const char* algorithm_name(uint8_t row) const override;
  Result<StepResult> step(const Call& call, Mesh& mesh, StepState& state) override;
  Status run(const Call& call, Mesh& mesh, Deadline deadline) override;

 private:
  void tell(const AlgorithmChoice& choice, const BatchShape& shape) const;

  Settings settings_;
  std::vector<Algorithm> rows_;
  mutable std::array<std::atomic<bool>, 256> told_{};  ///< by row
};

/// The data plane of this build with the given settings. `check_forced_algorithms` (ops/select.h) says at init whether
/// the rows they force exist.
std::unique_ptr<Executor> make_executor(const Settings& settings);

}  // namespace rueda::core
