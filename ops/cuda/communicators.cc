// Makes, calls and ends communicators.
//
// An epoch may end while NCCL is anywhere: in the making of a communicator whose peer is dead, in a kernel that waits
// for one, or idle. The aborter's thread exists from the first communicator on, so the end of an epoch, which may come
// of a lack of threads, starts none. It takes the lock, which a call holds for microseconds, and aborts all
// communicators as one group: one after the other, an abort could wait for a kernel that lies behind another's.
#include "ops/cuda/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "runtime/base/half.h"
#include "runtime/base/log.h"

namespace rueda::cuda {
namespace {

using core::Code;
using Clock = std::chrono::steady_clock;

/// How long the others may take to end a communicator in order, and how long NCCL may take for an abort.
constexpr std::chrono::seconds kMostForEnd{2};
constexpr std::chrono::seconds kMostForAbort{5};
constexpr std::chrono::microseconds kEndLook{200};
constexpr size_t kMostScaledSums = 16;
/// NCCL makes room for each call of a group.
constexpr size_t kMostInGroup = 64;

/// What NCCL says of a broken link, and of a peer that has died: then kPeerLost, without a rank.
Code code_of(NcclResult result) {
  const bool by_link =
      result == NcclResult::kSystemError || result == NcclResult::kInternalError || result == NcclResult::kRemoteError;
  return by_link ? Code::kPeerLost : Code::kSystem;
}

Status nccl_failure(const Nccl& nccl, const char* call, NcclResult result, NcclComm communicator) {
  const char* const last = nccl.last_error(communicator);
  const std::string more = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  return {code_of(result),
          fmt::format("NCCL {}, {}: {}{}; RUEDA_NCCL=0 lets tensors on GPUs go through the host, and NCCL_DEBUG=WARN "
                      "makes NCCL say more",
                      nccl_version_text(nccl.version), call, nccl.error_text(result), more)};
}

Status is_over() { return {Code::kShutDown, "NCCL's communicators have ended with the job"}; }

}  // namespace

Status Communicators::begin(const Nccl& nccl) {
  if (aborter_.joinable()) return {};
  state_->nccl = &nccl;
  try {
    aborter_ = std::thread([state = state_] { run_aborter(state); });
  } catch (const std::system_error& error) {
    return {Code::kSystem, fmt::format("cannot start the thread that aborts NCCL's communicators: {}", error.what())};
  }
  const std::lock_guard lock(state_->mutex);
  state_->begun = true;
  return {};
}

/// Takes the lock for calls. Returns false once nothing more may be called; then it does not wait for an abort that
/// hangs.
bool Communicators::enter(State& state, std::unique_lock<std::mutex>& calls) {
  while (!state.over.load()) {
    if (calls.try_lock()) {
      if (!state.over.load()) return true;
      calls.unlock();
    }
    std::this_thread::yield();  // the holder is in a call of microseconds
  }
  return false;
}

Status Communicators::make(CommunicatorKey key, const Device& device, int members, int member, const NcclId& id,
                           core::EngineCall& host) {
  {
    std::unique_lock calls(state_->calls, std::defer_lock);
    if (!enter(*state_, calls)) return is_over();
    const Current current(device);
    if (current.result() != CUDA_SUCCESS) {
      return {Code::kSystem, failure_of(device.driver(), "cuCtxPushCurrent", current.result())};
    }
    NcclConfig config;
    NcclComm made = nullptr;
    const NcclResult result = state_->nccl->init(&made, members, id, member, &config);
    if (!begun(result)) return nccl_failure(*state_->nccl, "ncclCommInitRankConfig", result, nullptr);
    state_->by_key[key] = {made, &device, {}};
  }
  return await(key, "ncclCommInitRankConfig", host);
}

/// Until NCCL says so, nothing may be put into the stream behind what was called: its own work might not be there yet.
Status Communicators::await(CommunicatorKey key, const char* call, core::EngineCall& host) {
  Status failure;
  const auto ready = [&] {
    std::unique_lock calls(state_->calls, std::defer_lock);
    if (!enter(*state_, calls)) {
      failure = is_over();
      return true;
    }
    const NcclComm communicator = state_->by_key.at(key).handle;
    NcclResult now = NcclResult::kSuccess;
    const NcclResult asked = state_->nccl->state(communicator, &now);
    if (asked != NcclResult::kSuccess) now = asked;
    if (now == NcclResult::kInProgress) return false;
    if (now != NcclResult::kSuccess) failure = nccl_failure(*state_->nccl, call, now, communicator);
    return true;
  };
  RUEDA_RETURN_IF_ERROR(host.until(ready));
  return failure;
}

Status Communicators::launch(CommunicatorKey key, const char* name, std::span<const Step> steps, Grouping grouping,
                             core::EngineCall& host) {
  const size_t most = grouping == Grouping::kOne ? steps.size() : kMostInGroup;
  for (size_t begin = 0; begin < steps.size(); begin += most) {
    RUEDA_RETURN_IF_ERROR(group(key, name, steps.subspan(begin, std::min(most, steps.size() - begin)), host));
  }
  return {};
}

Status Communicators::group(CommunicatorKey key, const char* name, std::span<const Step> steps,
                            core::EngineCall& host) {
  {
    std::unique_lock calls(state_->calls, std::defer_lock);
    if (!enter(*state_, calls)) return is_over();
    const Communicator& communicator = state_->by_key.at(key);
    const Current current(*communicator.device);
    const Nccl& nccl = *state_->nccl;
    NcclResult result = nccl.group_start();
    if (result == NcclResult::kSuccess) {
      for (size_t i = 0; i < steps.size() && begun(result); ++i) result = steps[i](nccl, communicator.handle);
      const NcclResult ended = nccl.group_end();
      if (begun(result)) result = ended;
    }
    if (!begun(result)) return nccl_failure(nccl, name, result, communicator.handle);
  }
  return await(key, name, host);
}

Result<NcclOp> Communicators::scaled_sum(CommunicatorKey key, NcclType type, double scale) {
  std::unique_lock calls(state_->calls, std::defer_lock);
  if (!enter(*state_, calls)) return is_over();
  Communicator& communicator = state_->by_key.at(key);
  const auto wanted = std::pair(static_cast<int>(type), scale);
  if (const auto known = communicator.scaled_sums.find(wanted); known != communicator.scaled_sums.end()) {
    return known->second;
  }
  if (communicator.scaled_sums.size() >= kMostScaledSums) {  // a program that changes its scale in each step
    static_cast<void>(state_->nccl->destroy_op(communicator.scaled_sums.begin()->second, communicator.handle));
    communicator.scaled_sums.erase(communicator.scaled_sums.begin());
  }
  double as_f64 = scale;
  auto as_f32 = static_cast<float>(scale);
  uint16_t as_half = type == NcclType::kF16 ? core::f64_to_f16(scale).bits : core::f64_to_bf16(scale).bits;
  void* scalar = &as_half;
  if (type == NcclType::kF64) scalar = &as_f64;
  if (type == NcclType::kF32) scalar = &as_f32;
  NcclOp made{};
  const NcclResult result =
      state_->nccl->create_scaled_sum(&made, scalar, type, kNcclScalarOnHost, communicator.handle);
  if (!begun(result)) return nccl_failure(*state_->nccl, "ncclRedOpCreatePreMulSum", result, communicator.handle);
  communicator.scaled_sums.emplace(wanted, made);
  return made;
}

void Communicators::forget(core::SetId set) {
  const std::lock_guard lock(state_->mutex);
  if (state_->begun) state_->forgotten.push_back(set);
}

void Communicators::end_forgotten() {
  std::vector<core::SetId> sets;
  {
    const std::lock_guard lock(state_->mutex);
    sets.swap(state_->forgotten);
  }
  for (const core::SetId set : sets) {
    for (const Reach reach : {Reach::kHost, Reach::kSet}) {
      finalize(*state_, {set, reach});
      ending_.push_back({set, reach});
    }
  }
  std::erase_if(ending_, [this](const CommunicatorKey& key) { return try_end(*state_, key, false); });
}

/// NCCL flushes what is under way, and says when it is through.
void Communicators::finalize(State& state, CommunicatorKey key) {
  std::unique_lock calls(state.calls, std::defer_lock);
  if (!enter(state, calls)) return;
  const auto found = state.by_key.find(key);
  if (found == state.by_key.end() || std::exchange(found->second.finalized, true)) return;
  Communicator& communicator = found->second;
  const Current current(*communicator.device);
  for (const auto& [made, op] : communicator.scaled_sums) {
    static_cast<void>(state.nccl->destroy_op(op, communicator.handle));
  }
  static_cast<void>(state.nccl->finalize(communicator.handle));
}

/// Returns true once the communicator is gone. Members that do not come in time are not waited for.
bool Communicators::try_end(State& state, CommunicatorKey key, bool overdue) {
  std::unique_lock calls(state.calls, std::defer_lock);
  if (!enter(state, calls)) return true;  // the aborter ends it
  const auto found = state.by_key.find(key);
  if (found == state.by_key.end()) return true;
  const Communicator& communicator = found->second;
  const Current current(*communicator.device);
  NcclResult now = NcclResult::kSuccess;
  static_cast<void>(state.nccl->state(communicator.handle, &now));
  if (now == NcclResult::kInProgress && !overdue) return false;
  const bool in_order = now == NcclResult::kSuccess;
  static_cast<void>(in_order ? state.nccl->destroy(communicator.handle) : state.nccl->abort(communicator.handle));
  state.by_key.erase(found);
  return true;
}

/// All are finalized before any is waited for, and all have one limit.
void Communicators::finish_all() {
  std::vector<CommunicatorKey> keys;
  {
    std::unique_lock calls(state_->calls, std::defer_lock);
    if (!enter(*state_, calls)) return;
    for (const auto& [key, communicator] : state_->by_key) keys.push_back(key);
  }
  for (const CommunicatorKey& key : keys) finalize(*state_, key);
  const auto limit = Clock::now() + kMostForEnd;
  for (;;) {
    const bool overdue = Clock::now() > limit;
    std::erase_if(keys, [&](const CommunicatorKey& key) { return try_end(*state_, key, overdue); });
    if (keys.empty()) return;
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, kEndLook);
  }
}

void Communicators::abort() {
  const std::lock_guard lock(state_->mutex);
  state_->over.store(true);
  if (state_->order == State::Order::kNone) state_->order = State::Order::kAbort;
  state_->changed.notify_all();
}

/// A kernel that waits for a broken link ends no other way. While the lane calls NCCL it learns of that by itself.
Status Communicators::check() {
  State& state = *state_;
  const std::unique_lock calls(state.calls, std::try_to_lock);
  if (!calls.owns_lock() || state.over.load()) return {};
  for (const auto& [key, communicator] : state.by_key) {
    NcclResult now = NcclResult::kSuccess;
    const NcclResult asked = state.nccl->state(communicator.handle, &now);
    if (asked != NcclResult::kSuccess) now = asked;
    if (!begun(now)) return nccl_failure(*state.nccl, "in a kernel", now, communicator.handle);
  }
  return {};
}

void Communicators::run_aborter(const std::shared_ptr<State>& state) {
  {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->order != State::Order::kNone; });
  }
  abort_all(*state);
  const std::lock_guard lock(state->mutex);
  state->ended = true;
  state->changed.notify_all();
}

void Communicators::abort_all(State& state) {
  const std::lock_guard lock(state.calls);
  state.over.store(true);
  if (state.by_key.empty()) return;
  const Current current(*state.by_key.begin()->second.device);
  static_cast<void>(state.nccl->group_start());
  for (const auto& [key, communicator] : state.by_key) static_cast<void>(state.nccl->abort(communicator.handle));
  static_cast<void>(state.nccl->group_end());
  state.by_key.clear();
}

bool Communicators::close() {
  if (!aborter_.joinable()) return true;
  finish_all();
  std::unique_lock lock(state_->mutex);
  if (state_->order == State::Order::kNone) state_->order = State::Order::kStop;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, kMostForAbort, [this] { return state_->ended; });
  lock.unlock();
  if (ended) {
    aborter_.join();
    return true;
  }
  aborter_.detach();
  host_.log(
      static_cast<int32_t>(core::LogLevel::kError),
      fmt::format("NCCL has not aborted its communicators within {} s; they are left as they are, and NCCL may not "
                  "work on their GPUs any more in this process",
                  kMostForAbort.count())
          .c_str());
  return false;
}

}  // namespace rueda::cuda
