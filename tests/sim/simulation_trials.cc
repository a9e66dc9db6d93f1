// Every third batch is a trial. Its members report how long it took, and rank 0 must hear that of one member, once.
#include <string>
#include <utility>

#include "tests/sim/simulation.h"

namespace rueda::sim {
namespace {

/// The time that all members report; rank 0 must get it as it was sent.
std::chrono::nanoseconds time_of(uint64_t trial) { return std::chrono::nanoseconds(trial * 1001); }

}  // namespace

core::AgreementConfig Simulation::with_trials(core::AgreementConfig config) {
  config.select = [this, select = config.select](const core::BatchShape& shape) {
    core::Result<core::AlgorithmChoice> choice = select(shape);
    if (!choice.ok() || shape.bytes % 3 != 0) return choice;
    core::AlgorithmChoice trial = choice.value();
    trial.trial = trials_.size() + 1;
    trials_[trial.trial] = false;
    return core::Result<core::AlgorithmChoice>(trial);
  };
  config.timed = [this](const core::TrialTime& time) {
    const auto known = trials_.find(time.trial);
    if (known == trials_.end() || time.took != time_of(time.trial))
      return fail("rank 0 hears of a trial that never was");
    if (std::exchange(known->second, true)) fail("rank 0 hears twice of trial " + std::to_string(time.trial));
  };
  return config;
}

void Simulation::report_time(size_t rank, const Running& batch) {
  if (batch.trial == 0 || records_[rank].dead) return;
  ranks_[rank].participant->timed(batch.id, {batch.trial, time_of(batch.trial), core::Distance::kFar});
  ranks_[rank].dirty = true;
}

}  // namespace rueda::sim
