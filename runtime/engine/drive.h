#pragma once
#include "runtime/engine/engine.h"

namespace rueda::core {

/// Runs turns until `done()`, or until nothing has moved for the spin budget, or moves no more and waiting here is not
/// `worth_it()`.
template <typename Done, typename WorthIt>
void Engine::drive(Done&& done, WorthIt&& worth_it) {
  constexpr int kTurnsPerClock = 16;
  rung_.store(false);
  auto idle_end = SteadyClock::now() + kSpinBudget;
  for (int idle = 0; !done();) {
    if (turn_->run()) {
      idle = 0;
      idle_end = SteadyClock::now() + kSpinBudget;
      continue;
    }
    if (!worth_it()) return;
    relax(style_);
    if (++idle % kTurnsPerClock == 0 && SteadyClock::now() >= idle_end) return;
  }
}

}  // namespace rueda::core
