// Leaving: a goodbye with its place in the total order, lanes that finish, and a bounded end for the rest.
#include <fmt/format.h>
#include <sched.h>

#include "runtime/base/log.h"
#include "runtime/engine/drive.h"
#include "runtime/engine/engine.h"
#include "runtime/net/transport.h"

namespace rueda::core {
namespace {

/// The ring of a peer that does not read may be full, and nobody tells this thread when it has been read.
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

void Engine::notify_progress() {
  MutexLock lock(progress_mutex_);
  progress_.notify_all();
}

void Engine::settle() {
  const auto rest_ahead = [this]() RUEDA_REQUIRES(baton_) {
    lanes_.hand_over();
    return turn_->expecting() ? Rest::kExpecting : Rest::kIdle;
  };
  const auto input_waiting = [this]() RUEDA_REQUIRES(baton_) { return turn_->input_waiting(); };
  const auto turn = [this]() RUEDA_REQUIRES(baton_) {
    rung_.store(false);
    turn_->run();
  };
  baton_.put_down(rest_ahead, input_waiting, turn);
}

void Engine::wait_for_goodbye(Deadline deadline) {
  for (;;) {
    bool flushed = false;
    if (baton_.try_take()) {
      drive([&]() RUEDA_REQUIRES(baton_) { return (left_.load() && turn_->flushed()) || abort_.raised(); },
            [] { return true; });
      flushed = turn_->flushed();
      settle();
    }
    if ((left_.load() && flushed) || abort_.raised() || deadline.passed()) return;
    ring_coordinator();
    MutexLock lock(progress_mutex_);
    if (!left_.load() && !abort_.raised()) progress_.wait_for(progress_mutex_, deadline.left(kLookAgain));
  }
}

void Engine::take_for_good() {
  while (!baton_.try_take()) ::sched_yield();
}

void Engine::shutdown(Deadline deadline) {
  if (ended_.exchange(true)) return;
  const Status why(Code::kShutDown, fmt::format("{} has shut down", who(plan_, plan_.rank)), plan_.rank);
  inbox_.close(why);
  signals_.goodbye_wanted.store(true);
  if (!abort_.raised()) wait_for_goodbye(deadline);
  if (!abort_.raised() && !lanes_.drain(deadline)) {
    log(LogLevel::kWarning, "rank {}: shutdown did not see its running operations end in time", plan_.rank);
  }
  epoch_over(why);
  stopping_.store(true);
  ring_coordinator();
  coordinator_.join();
  take_for_good();
  lanes_.hand_over();
  turn_->fail_all(abort_.why());
  lanes_.stop();
  turn_.reset();
  completer_.stop();
  metrics_.reset();
  lanes_.clear();
  formation_.local.clear();
  formation_.transport.reset();
  baton_.retire();
  formation_.segment.reset();
}

}  // namespace rueda::core
