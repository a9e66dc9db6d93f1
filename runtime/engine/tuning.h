#pragma once
#include <memory>
#include <optional>

#include "runtime/agreement/tuner.h"
#include "runtime/base/settings.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/task_thread.h"
#include "runtime/engine/tune_log.h"

namespace rueda::core {

/// How rank 0 chooses: by the executor's selection, or by the tuner if it knows variants to try. The engine of rank
/// 0 owns it. The baton's holder uses it, through the arbiter; the thread that shuts down calls `finish`, after the last
/// turn.
class Tuning {
 public:
  /// `executor` and `tasks` outlive it. With `settings.autotune` false it only selects. `slot_bytes`: as in BatchShape.
  Tuning(const Settings& settings, const Executor& executor, uint64_t slot_bytes, TaskThread& tasks);
  /// As AgreementConfig's `select` and `timed`.
  Result<AlgorithmChoice> select(const BatchShape& shape);
  void timed(const TrialTime& time);
  /// Writes what a log still waits for. After `tasks` has stopped.
  void finish();

 private:
  const Executor& executor_;
  std::optional<TuneLog> log_;
  std::optional<Tuner> tuner_;
};

}  // namespace rueda::core
