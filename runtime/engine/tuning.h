#pragma once
#include <memory>
#include <optional>

#include "runtime/agreement/tuner.h"
#include "runtime/base/settings.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/task_thread.h"
#include "runtime/engine/tune_file.h"
#include "runtime/engine/tune_log.h"

namespace rueda::core {

/// How rank 0 chooses: by the executor's selection, or by the tuner if it knows variants to try. The engine of rank
/// 0 owns it. The baton's holder uses it, through the arbiter; the thread that shuts down calls `finish`, after the
/// last turn.
class Tuning {
 public:
  /// `executor` and `tasks` outlive it. With `settings.autotune` false it only selects. A tune file that cannot be used
  /// is a warning; it stays as it is, in case its name is a mistake.
  Tuning(const Settings& settings, const Executor& executor, TuneFacts facts, TaskThread& tasks);
  /// As AgreementConfig's `select` and `timed`.
  Result<AlgorithmChoice> select(const BatchShape& shape);
  void timed(const TrialTime& time);
  /// Writes the tune file, and what a log still waits for. After `tasks` has stopped.
  void finish();

 private:
  void recall(const std::string& path);
  int number_of(const std::string& algorithm) const;
  void keep() const;

  const Executor& executor_;
  const TuneFacts facts_;
  std::string file_;  ///< to write; empty if there is none, or it is not to be touched
  std::optional<TuneLog> log_;
  std::optional<Tuner> tuner_;
};

}  // namespace rueda::core
