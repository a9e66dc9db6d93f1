// How the engine runs turns, and how the baton goes down. Every thread that gets the baton does the same: it runs turns
// while they move anything, then settles. `settle` hands an unfinished inline batch to its lane's thread first, because
// no thread may rest while a batch that only turns can step is under way.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "runtime/base/shortage.h"
#include "runtime/engine/drive.h"
#include "runtime/engine/engine.h"

namespace rueda::core {

/// Rings at most once until a thread takes the baton: a write to an eventfd costs a system call.
void Engine::ring_coordinator() {
  if (rung_.load() || rung_.exchange(true)) return;
  wake_coordinator();
}

/// Whether it was rung or not: it may have drained an earlier ring, and be past the look at what this one is for.
void Engine::wake_coordinator() {
  const uint64_t one = 1;
  static_cast<void>(!::write(formation_.doorbell.get(), &one, sizeof one));
}

/// Such a store costs a full barrier, so only if it changes anything. Only the holder of the baton clears the flag.
void Engine::take_ring() {
  if (rung_.load()) rung_.store(false);
}

/// No caller is blocked here, so this does not spin, except for an inline batch: its peers are about to post their
/// parts.
size_t Engine::run_turns() {
  take_ring();
  const uint64_t before = turn_->taken();
  const auto end = SteadyClock::now() + kDriveLimit;
  while (run_turn() && SteadyClock::now() < end) {
  }
  if (lanes_.has_inline()) {
    drive([&]() RUEDA_ON(baton_holder) { return !lanes_.has_inline(); }, [] { return true; });
  }
  // An inline batch without a turn would make its peers wait.
  if (!may_nap_ || lanes_.has_inline() || abort_.raised()) return 0;
  return static_cast<size_t>(turn_->taken() - before);
}

/// An exception in the middle of a turn, such as std::bad_alloc, ends the epoch and not the process: the agreement
/// state may be half changed, and nothing uses it after the abort.
bool Engine::run_turn() {
  try {
    return turn_->run();
  } catch (const std::exception& error) {
    epoch_over(own_failure(error));
    return false;
  }
}

void Engine::settle() {
  const auto rest_ahead = [this]() RUEDA_ON(baton_holder) {
    try {
      lanes_.hand_over();
    } catch (const std::exception& error) {  // the baton has to go down
      epoch_over(own_failure(error));
    }
    return turn_->expecting() ? Rest::kExpecting : Rest::kIdle;
  };
  const auto input_waiting = [this]() RUEDA_ON(baton_holder) { return turn_->input_waiting(); };
  const auto turn = [this]() RUEDA_ON(baton_holder) {
    take_ring();
    static_cast<void>(run_turn());
  };
  // A thread that took the baton may have run no turn. What the ring was for is looked at before the release.
  take_ring();
  baton_.put_down(rest_ahead, input_waiting, turn);
}

/// The order matters: what expires asks for error verdicts, which the turns after this one carry; held frames go up
/// before rank 0 judges which ranks are missing.
Findings Engine::look_around(SteadyClock::time_point now) {
  Findings found;
  try {
    look(found, now);
  } catch (const std::exception& error) {
    found.end = own_failure(error);
  }
  return found;
}

void Engine::look(Findings& found, SteadyClock::time_point now) {
  turn_->expire(now);
  turn_->release_held();
  found.silent = turn_->look_for_silence(now);
  look_for_late_batch(now);
  found.lines = look_for_stalls(now, found.end);
  found.inquiring = inquiry_.under_way();
}

/// Returns the reason for the end of the epoch after an exception on one of this rank's threads.
Status Engine::own_failure(const std::exception& error) const noexcept {
  Status reason = failure_of(error);
  try {
    return {Code::kSystem, fmt::format("{} ended the job: {}", plan_.name_of(plan_.rank), reason.sentence()),
            plan_.rank};
  } catch (const std::exception&) {
    return reason;
  }
}

void Engine::step_failed(const std::exception& error) noexcept { epoch_over(own_failure(error)); }

bool Engine::needed_by_none() { return turn_->needed_by_none(); }

/// Other threads hold the baton only for moments, and none of them sleeps with it.
void Engine::take_for_good() {
  while (!baton_.try_take()) ::sched_yield();
}

}  // namespace rueda::core
