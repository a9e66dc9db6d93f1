// Ends communicators, on a thread of its own: in order, or by an abort.
//
//   order                    finalize ─▶ look until NCCL is through ─▶ destroy
//                                              └─ too late, or broken ─▶ a sentence, abort
//   end of the epoch         abort
//
// An epoch may end while NCCL is anywhere: in the making of a communicator whose peer is dead, in a kernel that waits
// for one, or idle. The thread exists from the first communicator on, so the end of an epoch, which may come of a lack
// of threads, starts none. It takes the lock, which a call holds for microseconds, and aborts all communicators as one
// group: one after the other, an abort could wait for a kernel that lies behind another's.
//
// A peer may die or hang while NCCL ends a communicator, which then waits for it. So the end in order has a limit, and
// what is not through by then is aborted. NCCL names no peer; the processes of this host are looked at, and the first
// that is gone is named, unless it may have given up for the same reason as this one. If NCCL does not even come back
// from a call, the thread is left in it.
//
// A process that ends without a shutdown comes here from its exit handlers, and CUDA's own has run before. Then NCCL
// could only fail, which is no news of other ranks, so nothing of it is called.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "ops/cuda/communicators.h"
#include "runtime/base/log.h"

namespace rueda::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the others may take to end a communicator in order, and how long NCCL may take to come back.
constexpr std::chrono::seconds kMostForEnd{2};
constexpr std::chrono::seconds kMostForReturn{5};
/// Members begin the end at about the same time. One whose process ends so long before the limit has not waited for it.
constexpr std::chrono::milliseconds kGivenUpTogether{500};
/// How often the ender looks whether NCCL is through: soon at first.
constexpr std::chrono::microseconds kFirstEndLook{200};
constexpr std::chrono::microseconds kLastEndLook{20'000};

std::string words_for_dead(const std::vector<int>& ranks) {
  if (ranks.empty()) return "one of the other ranks hangs, or has died on another host";
  if (ranks.size() == 1) return fmt::format("the process of rank {} has ended", ranks.front());
  return fmt::format("the processes of ranks {} have ended", fmt::join(ranks, ", "));
}

std::string why_aborted(size_t ranks, const std::vector<int>& dead) {
  return fmt::format("NCCL has not ended a communicator of {} ranks within {} s, or could not, so it is aborted: {}",
                     ranks, kMostForEnd.count(), words_for_dead(dead));
}

}  // namespace

/// Says for a scope which call of NCCL's the ender is in.
class Communicators::SlowCall {
 public:
  SlowCall(State& state, const char* name) : state_(state) { state_.slow_call.store(name); }
  ~SlowCall() { state_.slow_call.store(nullptr); }
  SlowCall(const SlowCall&) = delete;
  SlowCall& operator=(const SlowCall&) = delete;

 private:
  State& state_;
};

void Communicators::forget(core::SetId set) {
  const std::lock_guard lock(state_->mutex);
  if (state_->begun) state_->forgotten.push_back(set);
}

void Communicators::end_forgotten() {
  const std::lock_guard lock(state_->mutex);
  if (state_->forgotten.empty()) return;
  state_->to_end.insert(state_->to_end.end(), state_->forgotten.begin(), state_->forgotten.end());
  state_->forgotten.clear();
  state_->changed.notify_all();
}

/// An abort replaces an end in order that is under way.
void Communicators::abort() {
  const std::lock_guard lock(state_->mutex);
  state_->over.store(true);
  state_->order = State::Order::kAbort;
  state_->changed.notify_all();
}

/// Sets that were forgotten have no limit of their own: their other members may end them at a later batch.
void Communicators::run_ender(const std::shared_ptr<State>& state) {
  std::chrono::microseconds look = kFirstEndLook;
  Clock::time_point limit = Clock::time_point::max();
  bool some_left = false;
  bool all_finalized = false;
  std::unique_lock lock(state->mutex);
  for (;;) {
    const auto has_news = [&] {
      return !state->to_end.empty() || state->order == State::Order::kAbort ||
             (state->order == State::Order::kEnd && !all_finalized);
    };
    if (!some_left) {
      state->changed.wait(lock, has_news);
    } else if (!state->changed.wait_for(lock, look, has_news)) {
      look = std::min(2 * look, kLastEndLook);
    }
    const State::Order order = state->order;
    const std::vector<core::SetId> sets = std::exchange(state->to_end, {});
    lock.unlock();
    if (order == State::Order::kAbort || cuda_has_ended(*state)) break;
    finalize_sets(*state, sets);
    if (order == State::Order::kEnd && !std::exchange(all_finalized, true)) {
      finalize_all(*state);
      limit = Clock::now() + kMostForEnd;
      look = kFirstEndLook;
    }
    some_left = look_at_ending(*state, limit);
    lock.lock();
    if (all_finalized && !some_left && state->order == State::Order::kEnd) break;
  }
  if (lock.owns_lock()) lock.unlock();
  abort_all(*state);
  lock.lock();
  state->ended = true;
  state->changed.notify_all();
}

void Communicators::cannot_end(State& state) {
  state.over.store(true);
  state.host.log(
      static_cast<int32_t>(core::LogLevel::kError),
      "NCCL's communicators were not ended, for lack of memory: work on a GPU that waits for another rank goes "
      "on waiting until the process ends");
  const std::lock_guard lock(state.mutex);
  state.ended = true;
  state.changed.notify_all();
}

/// NCCL flushes what is under way, and says when it is through. It refuses to while memory is registered.
void Communicators::finalize(State& state, Communicator& communicator) {
  const Current current(*communicator.device);
  for (const auto& [made, op] : communicator.scaled_sums) {
    static_cast<void>(state.nccl->destroy_op(op, communicator.handle));
  }
  if (communicator.registration != nullptr) {
    static_cast<void>(state.nccl->deregister_memory(communicator.handle, communicator.registration));
  }
  const SlowCall call(state, "ncclCommFinalize");
  static_cast<void>(state.nccl->finalize(communicator.handle));
}

void Communicators::finalize_sets(State& state, std::span<const core::SetId> sets) {
  for (const core::SetId set : sets) {
    for (const Reach reach : {Reach::kHost, Reach::kSet}) {
      std::unique_lock calls(state.calls, std::defer_lock);
      if (!enter(state, calls).ok()) return;
      auto found = state.by_key.extract({set, reach});
      if (found.empty()) continue;
      state.ending.push_back(std::move(found.mapped()));
      finalize(state, state.ending.back());
    }
  }
}

/// All are finalized before any is waited for.
void Communicators::finalize_all(State& state) {
  std::unique_lock calls(state.calls, std::defer_lock);
  if (!enter(state, calls).ok()) return;
  while (!state.by_key.empty()) {
    state.ending.push_back(std::move(state.by_key.extract(state.by_key.begin()).mapped()));
    finalize(state, state.ending.back());
  }
}

/// Returns whether some have not ended yet. What is late is said first, without the lock, and aborted at the next look.
bool Communicators::look_at_ending(State& state, Clock::time_point limit) {
  const Clock::time_point now = Clock::now();
  std::vector<Communicator> doomed;
  std::vector<std::string> warnings;
  std::unique_lock calls(state.calls, std::defer_lock);
  if (!enter(state, calls).ok()) return false;  // the abort ends them
  std::erase_if(state.ending, [&](Communicator& communicator) {
    if (communicator.late) {
      doomed.push_back(std::move(communicator));
      return true;
    }
    NcclResult result = NcclResult::kSuccess;
    static_cast<void>(state.nccl->state(communicator.handle, &result));
    if (result == NcclResult::kSuccess) {
      destroy(state, communicator);
      return true;
    }
    const bool looks = communicator.dead.empty() && now + kGivenUpTogether < limit;
    if (looks) communicator.dead = ended_among(communicator.members);
    communicator.late = result != NcclResult::kInProgress || now >= limit;
    if (communicator.late) warnings.push_back(why_aborted(communicator.members.size(), communicator.dead));
    return false;
  });
  abort_group(state, doomed);
  const bool some_left = !state.ending.empty();
  calls.unlock();
  for (const std::string& each : warnings) state.host.log(static_cast<int32_t>(core::LogLevel::kWarning), each.c_str());
  return some_left;
}

void Communicators::destroy(State& state, const Communicator& communicator) {
  const Current current(*communicator.device);
  const SlowCall call(state, "ncclCommDestroy");
  static_cast<void>(state.nccl->destroy(communicator.handle));
}

void Communicators::abort_group(State& state, std::span<const Communicator> all) {
  if (all.empty()) return;
  const Current current(*all.front().device);
  const SlowCall call(state, "ncclCommAbort");
  static_cast<void>(state.nccl->group_start());
  for (const Communicator& communicator : all) static_cast<void>(state.nccl->abort(communicator.handle));
  static_cast<void>(state.nccl->group_end());
}

void Communicators::abort_all(State& state) {
  const std::lock_guard lock(state.calls);
  state.over.store(true);
  std::vector<Communicator> all = std::exchange(state.ending, {});
  for (auto& [key, communicator] : state.by_key) all.push_back(std::move(communicator));
  state.by_key.clear();
  if (!cuda_has_ended(state)) abort_group(state, all);
}

bool Communicators::cuda_has_ended(const State& state) {
  const Device* const device = state.device.load();
  return device != nullptr && device->cuda_has_ended();
}

bool Communicators::close() {
  if (!ender_.joinable()) return true;
  std::unique_lock lock(state_->mutex);
  if (state_->order == State::Order::kNone) state_->order = State::Order::kEnd;
  state_->changed.notify_all();
  const bool in_order = state_->order == State::Order::kEnd;
  const std::chrono::seconds limit = kMostForReturn + (in_order ? kMostForEnd : std::chrono::seconds(0));
  const bool ended = state_->changed.wait_for(lock, limit, [this] { return state_->ended; });
  lock.unlock();
  if (ended) {
    ender_.join();
    return true;
  }
  ender_.detach();
  const char* const call = state_->slow_call.load();
  state_->host.log(
      static_cast<int32_t>(core::LogLevel::kError),
      fmt::format("NCCL has not come back from {} within {} s; its communicators are left as they are, and it may not "
                  "work on their GPUs any more in this process",
                  call == nullptr ? "the end of its communicators" : call, limit.count())
          .c_str());
  return false;
}

}  // namespace rueda::cuda
