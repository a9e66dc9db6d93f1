// Joins the pure tuner with what it needs: the executor's variants and plans, the clock, and the log.
#include "runtime/engine/tuning.h"

namespace rueda::core {

Tuning::Tuning(const Settings& settings, const Executor& executor, uint64_t slot_bytes, TaskThread& tasks)
    : executor_(executor) {
  if (!settings.autotune) return;
  if (!settings.autotune_log.empty()) {
    log_.emplace(
        settings.autotune_log, [&executor](uint8_t number) { return executor.algorithm_name(number); }, slot_bytes,
        tasks);
  }
  Tuner::Parts parts;
  parts.now = [] { return SteadyClock::now(); };
  parts.variants = [&executor](const BatchShape& shape) { return executor.variants(shape); };
  if (log_) parts.report = [this](const TrialReport& report) { log_->add(report); };
  tuner_.emplace(std::move(parts));
}

/// A variant may have been found for another shape of the class, and not serve this one; then the usual choice does.
Result<AlgorithmChoice> Tuning::select(const BatchShape& shape) {
  const Tuner::Pick pick = tuner_ ? tuner_->pick(shape) : Tuner::Pick();
  if (pick.variant) {
    Result<AlgorithmChoice> planned = executor_.plan(shape, *pick.variant);
    if (!planned.ok()) return executor_.select(shape);
    AlgorithmChoice choice = planned.value();
    choice.trial = pick.trial;
    return choice;
  }
  Result<AlgorithmChoice> selected = executor_.select(shape);
  if (!selected.ok() || pick.trial == 0) return selected;
  AlgorithmChoice choice = selected.value();
  choice.trial = pick.trial;
  return choice;
}

void Tuning::timed(const TrialTime& time) {
  if (tuner_) tuner_->timed(time);
}

void Tuning::finish() {
  if (log_) log_->finish();
}

}  // namespace rueda::core
