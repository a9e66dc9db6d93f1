#pragma once
#include <algorithm>

#include "runtime/engine/engine.h"

namespace rueda::core {

/// For how long one holder of the baton runs turns while other ranks' input comes without a break. The coordinator
/// applies limits and looks for stalls, so it has to have the baton now and then.
constexpr std::chrono::milliseconds kDriveLimit{20};

/// Runs turns until `done()`, at most until `deadline` or kDriveLimit. Ends early if a turn moves nothing and spinning
/// here is not `worth_it()`, or if nothing has moved for the spin budget.
template <typename Done, typename WorthIt>
void Engine::drive(Done&& done, WorthIt&& worth_it, Deadline deadline) {
  constexpr int kTurnsPerClock = 16;
  rung_.store(false);
  const auto begin = SteadyClock::now();
  const auto last = std::min(deadline.when(), begin + kDriveLimit);
  auto end = std::min(last, begin + kSpinBudget);
  for (int idle = 0; !done();) {
    if (run_turn()) {
      const auto now = SteadyClock::now();
      if (now >= last) return;
      idle = 0;
      end = std::min(last, now + kSpinBudget);
      continue;
    }
    if (!worth_it()) return;
    relax(style_);
    if (++idle % kTurnsPerClock == 0 && SteadyClock::now() >= end) return;
  }
}

}  // namespace rueda::core
