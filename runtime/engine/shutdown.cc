// Leaving: a goodbye with its position in the total order, lanes that finish, and a bounded end for the rest.
//
//   1. the inbox closes, so that the goodbye comes after everything that callers submitted
//   2. the timeline's last records, then the goodbye: turns carry both, run by this thread or the coordinator's
//   3. lanes finish what was agreed before the goodbye
//   4. the abort, even if all went well: whatever still waits, anywhere, ends now
//   5. threads, then what they used: the coordinator first, because it may take the baton at any time; then the
//      baton is taken for good, and each object is freed after the last thread that knows it
//
// A rank that left before the others must not make them wait, so each wait here has a limit of its own.
#include <fmt/format.h>

#include <optional>

#include "runtime/base/log.h"
#include "runtime/engine/drive.h"
#include "runtime/engine/engine.h"
#include "runtime/net/transport.h"

namespace rueda::core {
namespace {

/// The ring of a peer that does not read may be full, and no event tells this thread when it has been read.
constexpr std::chrono::milliseconds kLookAgain{20};
/// How long a rank whose epoch has failed waits for peers that may not read, and a rank that leaves for those that have
/// left before it.
constexpr std::chrono::seconds kLongestLastWord{1};
/// A leader waits at most half of this for the ranks below it, and then says goodbye for them.
constexpr std::chrono::seconds kLongestPatience{60};
/// How long rank 0 waits for what other ranks have recorded.
constexpr std::chrono::seconds kLastRecords{2};

}  // namespace

void Engine::notify_progress() {
  MutexLock lock(progress_mutex_);
  progress_.notify_all();
}

/// Done when the goodbye has come back in its position in the order, this rank passes nothing on for others, and all
/// frames have left. The last condition has a limit of its own for ranks that have left: they may read no more.
void Engine::wait_for_goodbye(Deadline deadline) {
  // The ranks below a leader that do not leave in time leave with it.
  const Deadline patience = Deadline::after(deadline.left(kLongestPatience) / 2);
  std::optional<Deadline> last_words;
  for (;;) {
    const bool had_left = left_.load();
    bool finished = false;
    if (baton_.try_take()) {
      const auto done = [&]() RUEDA_ON(baton_holder) {
        if (!left_.load() || !turn_->needed_by_none() || !turn_->flushed()) return false;
        if (!last_words) last_words = Deadline::after(kLongestLastWord);
        return turn_->flushed_to_leavers() || last_words->passed();
      };
      if (had_left && patience.passed() && !turn_->needed_by_none()) turn_->dismiss_below();
      drive([&]() RUEDA_ON(baton_holder) { return done() || abort_.raised(); }, [] { return true; });
      finished = done();
      settle();
    }
    if (finished || abort_.raised() || deadline.passed()) return;
    ring_coordinator();  // it moves the sockets' bytes
    MutexLock lock(progress_mutex_);
    if (left_.load() == had_left && !abort_.raised()) progress_.wait_for(progress_mutex_, deadline.left(kLookAgain));
  }
}

/// Sends the reason why the epoch is over to the peers that hear it from this rank: else they would see a connection
/// end without a reason.
void Engine::wait_for_last_word(Deadline deadline) {
  for (;;) {
    bool told = false;
    if (baton_.try_take()) {
      static_cast<void>(run_turn());
      told = turn_->tried_to_tell_peers() && turn_->flushed();
      settle();
    }
    if (told || deadline.passed()) return;
    if (!coordinator_->started()) {
      if (formation_.transport != nullptr) formation_.transport->poll(kLookAgain);  // then this thread moves the bytes
      continue;
    }
    ring_coordinator();
    MutexLock lock(progress_mutex_);
    progress_.wait_for(progress_mutex_, deadline.left(kLookAgain));
  }
}

/// What fails, for lack of memory, is told, and the steps behind it follow: a goodbye is due in any case, and threads
/// end before what they use is freed.
template <typename Step>
void Engine::in_any_case(Step&& step) noexcept {
  try {
    step();
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "rank {}: in the shutdown: {}", plan_.rank, error.what());
  }
}

/// Steps 1 to 3.
void Engine::leave(Deadline deadline) {
  inbox_.close(farewell_);
  if (abort_.raised()) timeline_.abandon_others();
  in_any_case([&] { timeline_.leave(deadline.earlier(Deadline::after(kLastRecords))); });
  signals_.goodbye_wanted.store(true);
  bool waited = false;
  for (int i = 0; i < 2 && !waited && !abort_.raised(); ++i) {
    in_any_case([&] {
      wait_for_goodbye(deadline);
      waited = true;
    });
  }
  if (abort_.raised()) {
    in_any_case([&] { wait_for_last_word(deadline.earlier(Deadline::after(kLongestLastWord))); });
  }
  const bool drained = abort_.raised() || lanes_.drain(deadline);
  if (!drained) {
    log(LogLevel::kWarning, "rank {}: the shutdown reached its deadline while operations were still running",
        plan_.rank);
  }
  left_in_order_.store(drained && left_.load() && !abort_.raised());
}

/// The order of the last lines is that of the threads: see the top of this file.
void Engine::shutdown(Deadline deadline, OtherCalls others) {
  if (ended_.exchange(true)) return;
  in_any_case([&] { leave(deadline); });
  epoch_over(farewell_);  // a reason that came earlier stays
  coordinator_->begin_stop();
  wake_coordinator();
  coordinator_->join();
  activity_.stop();
  task_thread_.stop();
  in_any_case([&] { timeline_.end(); });
  take_for_good();  // a caller in `wait` may still have it
  in_any_case([&] {
    baton_holder.assert_held();
    lanes_.hand_over();
  });
  // What no lane holds; lanes fail their own. Twice, because what the first call leaves would be waited for for ever.
  for (int i = 0; i < 2; ++i) {
    in_any_case([&] {
      baton_holder.assert_held();
      turn_->fail_all(abort_.why());
    });
  }
  lanes_.stop();
  in_any_case([&] { executor_->close_devices(); });
  claim_.release();
  turn_.reset();
  if (tuning_ != nullptr) in_any_case([&] { tuning_->finish(); });
  inbox_.end();
  completer_.stop();  // the last operations have completed, so this runs the last callbacks
  metrics_.reset();
  lanes_.clear();
  formation_.transport.reset();
  if (others == OtherCalls::kHaveEnded) formation_.local.clear();  // not before it: it watches these descriptors
  coordinator_.reset();  // not before the transport, whose loop watches the descriptors of the launcher's sources
  baton_.retire();
  heart_.reset();  // as late as this: until here this rank may block, and is not dead
  if (others == OtherCalls::kHaveEnded) formation_.segment.reset();
}

}  // namespace rueda::core
