// Leaving: a goodbye with its place in the total order, lanes that finish, and a bounded end for the rest.
#include <fmt/format.h>

#include <optional>

#include "runtime/base/log.h"
#include "runtime/engine/drive.h"
#include "runtime/engine/engine.h"
#include "runtime/net/transport.h"

namespace rueda::core {
namespace {

/// The ring of a peer that does not read may be full, and nobody tells this thread when it has been read.
constexpr std::chrono::milliseconds kLookAgain{20};
/// Of a rank whose epoch has failed, where peers do not read, and of one that leaves, for those that left before.
constexpr std::chrono::seconds kLongestLastWord{1};
/// Of a leader for those below it, half of which it waits before it takes them along.
constexpr std::chrono::seconds kLongestPatience{60};
/// How long rank 0 waits for what other ranks have recorded.
constexpr std::chrono::seconds kLastRecords{2};

}  // namespace

void Engine::notify_progress() {
  MutexLock lock(progress_mutex_);
  progress_.notify_all();
}

void Engine::wait_for_goodbye(Deadline deadline) {
  // Those below a leader that do not leave in time leave with it.
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
    ring_coordinator();
    MutexLock lock(progress_mutex_);
    if (left_.load() == had_left && !abort_.raised()) progress_.wait_for(progress_mutex_, deadline.left(kLookAgain));
  }
}

/// Why the epoch is over, on its way to those who hear it from this rank: else they would see an end without a reason.
void Engine::wait_for_last_word(Deadline deadline) {
  for (;;) {
    bool told = false;
    if (baton_.try_take()) {
      static_cast<void>(run_turn());
      told = turn_->told_peers() && turn_->flushed();
      settle();
    }
    if (told || deadline.passed()) return;
    ring_coordinator();
    MutexLock lock(progress_mutex_);
    progress_.wait_for(progress_mutex_, deadline.left(kLookAgain));
  }
}

void Engine::shutdown(Deadline deadline) {
  if (ended_.exchange(true)) return;
  const Status why(Code::kShutDown, fmt::format("{} has shut down", who(plan_, plan_.rank)), plan_.rank);
  inbox_.close(why);
  if (abort_.raised()) timeline_.abandon_others();
  timeline_.leave(deadline.earlier(Deadline::after(kLastRecords)));
  signals_.goodbye_wanted.store(true);
  if (!abort_.raised()) wait_for_goodbye(deadline);
  if (abort_.raised()) wait_for_last_word(deadline.earlier(Deadline::after(kLongestLastWord)));
  if (!abort_.raised() && !lanes_.drain(deadline)) {
    log(LogLevel::kWarning, "rank {}: the shutdown reached its deadline while operations were still running",
        plan_.rank);
  }
  epoch_over(why);
  coordinator_->begin_stop();
  ring_coordinator();
  coordinator_->join();
  activity_.stop();
  worker_.stop();
  timeline_.end();
  take_for_good();
  lanes_.hand_over();
  turn_->fail_all(abort_.why());
  lanes_.stop();
  claim_.release();
  turn_.reset();
  inbox_.end();
  completer_.stop();
  metrics_.reset();
  lanes_.clear();
  formation_.local.clear();
  formation_.transport.reset();
  coordinator_.reset();  // not before the transport, whose loop watches the descriptors of the launcher's sources
  baton_.retire();
  formation_.segment.reset();
}

}  // namespace rueda::core
