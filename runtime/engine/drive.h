#pragma once
#include "runtime/engine/engine.h"

namespace rueda::core {

/// Runs turns until `done()`, or until nothing has moved for the spin budget.
template <typename Done>
void Engine::drive(Done&& done) {
  constexpr int kTurnsPerClock = 16;
  rung_.store(false);
  auto idle_end = SteadyClock::now() + kSpinBudget;
  for (int idle = 0; !done();) {
    if (turn_->run()) {
      idle = 0;
      idle_end = SteadyClock::now() + kSpinBudget;
      continue;
    }
    relax(style_);
    if (++idle % kTurnsPerClock == 0 && SteadyClock::now() >= idle_end) return;
  }
}

}  // namespace rueda::core
