#pragma once
#include <algorithm>
#include <utility>

#include "runtime/engine/engine.h"

namespace rueda::core {

/// For how long one holder of the baton runs turns while other ranks' input comes without a break. The coordinator
/// applies limits and looks for stalls, so it has to have the baton now and then.
constexpr std::chrono::milliseconds kDriveLimit{20};

/// Runs turns until `done()`, at most until `deadline` or kDriveLimit. Ends early if a turn moves nothing and spinning
/// here is not `worth_it()`, or if nothing has moved for the spin budget. Reads the clock every few turns only, and
/// counts its limits from the first reading: a small operation is done before that.
template <typename Done, typename WorthIt>
void Engine::drive(Done&& done, WorthIt&& worth_it, Deadline deadline) {
  constexpr int kTurnsPerClock = 16;
  take_ring();
  SteadyClock::time_point last, end;  // set by the first reading of the clock, `end` because of `moved`
  bool moved = true;
  for (int turns = 0; !done();) {
    if (run_turn()) {
      moved = true;
    } else {
      if (!worth_it()) return;
      relax(style_);
      if (spread_ != nullptr) spread_->yielded();
    }
    if (++turns % kTurnsPerClock != 0) continue;
    const auto now = SteadyClock::now();
    if (turns == kTurnsPerClock) last = std::min(deadline.when(), now + kDriveLimit);
    if (std::exchange(moved, false)) end = std::min(last, now + kSpinBudget);
    if (now >= last || now >= end) return;
  }
}

}  // namespace rueda::core
