// Joins the pure tuner with what it needs: the executor's variants and plans, the clock, the log, and the file that
// keeps choices from one start to the next.
#include "runtime/engine/tuning.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/base/log.h"

namespace rueda::core {

Tuning::Tuning(const Settings& settings, const Executor& executor, TuneFacts facts, TaskThread& tasks)
    : executor_(executor), facts_(std::move(facts)) {
  if (!settings.autotune) return;
  if (!settings.autotune_log.empty()) {
    log_.emplace(
        settings.autotune_log, [&executor](uint8_t number) { return executor.algorithm_name(number); },
        facts_.slot_bytes, tasks);
  }
  Tuner::Parts parts;
  parts.now = [] { return SteadyClock::now(); };
  parts.variants = [&executor](const BatchShape& shape) { return executor.variants(shape); };
  parts.refinements = [&executor](const BatchShape& shape, const Variant& variant) {
    return executor.refinements(shape, variant);
  };
  parts.check = settings.autotune_check;
  if (log_) parts.report = [this](const TrialReport& report) { log_->add(report); };
  tuner_.emplace(std::move(parts));
  if (!settings.tune_file.empty()) recall(settings.tune_file);
}

/// The path is made absolute now: the program may change its folder before the file is written.
void Tuning::recall(const std::string& path) {
  const auto unused = [&path](const std::string& why) {
    log(LogLevel::kWarning, "RUEDA_TUNE_FILE: {} is not used and stays as it is: {}", path, why);
  };
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return unused(error.message());
  const Result<std::string> text = read_tune_file(absolute);
  if (!text.ok()) return unused(text.status().sentence());
  if (!text.value().empty()) {
    const Result<TuneFile> file = tune_file_from_json(text.value());
    if (!file.ok()) return unused(file.status().sentence());
    const std::string differs = difference(file.value().facts, facts_);
    if (!differs.empty()) return unused("it was made on another machine or for another job (" + differs + ")");
    for (const NamedChoice& named : file.value().choices) {
      TunedChoice choice = named.choice;
      const int number = number_of(named.algorithm);
      if (number < 0) continue;  // of a build with more algorithms
      choice.variant.algorithm = static_cast<uint8_t>(number);
      tuner_->recall(choice);
    }
  }
  file_ = absolute;
}

int Tuning::number_of(const std::string& algorithm) const {
  for (int number = 0; number <= UINT8_MAX; ++number) {
    if (algorithm == executor_.algorithm_name(static_cast<uint8_t>(number))) return number;
  }
  return -1;
}

void Tuning::keep() const {
  TuneFile file{facts_, {}};
  for (const TunedChoice& choice : tuner_->choices()) {
    if (file.choices.size() == kMostTunedChoices) break;
    file.choices.push_back({choice, executor_.algorithm_name(choice.variant.algorithm)});
  }
  if (file.choices.empty()) return;
  const Status written = write_tune_file(file_, to_json(file));
  if (!written.ok()) log(LogLevel::kWarning, "RUEDA_TUNE_FILE: {}", written.sentence());
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
  if (!file_.empty()) keep();
  if (log_) log_->finish();
}

}  // namespace rueda::core
