// Makes and calls communicators. A call is made under the lock and returns at once; until NCCL is through with it the
// device lane asks again and again, and in between it lets go of the lock and hears of the end of the epoch.
// communicators_end.cc ends them.
#include "ops/cuda/communicators.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "runtime/base/half.h"

namespace rueda::cuda {
namespace {

using core::Code;
using Clock = std::chrono::steady_clock;

/// How long the ender may be in a call of NCCL's before that fails others: it holds the lock there.
constexpr std::chrono::seconds kMostForOthers{5};
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

Status does_not_return(const char* call) {
  return {Code::kSystem, fmt::format("NCCL has not come back from {} within {} s, and nothing else of it can be called",
                                     call == nullptr ? "a call" : call, kMostForOthers.count())};
}

}  // namespace

Status Communicators::begin(const Nccl& nccl) {
  if (ender_.joinable()) return {};
  state_->nccl = &nccl;
  try {
    ender_ = std::thread([state = state_] {
      try {
        run_ender(state);
      } catch (const std::exception&) {  // no memory: what is left of NCCL is left to the end of the process
        cannot_end(*state);
      }
    });
  } catch (const std::system_error& error) {
    return {Code::kSystem, fmt::format("cannot start the thread that ends NCCL's communicators: {}", error.what())};
  }
  static_cast<void>(::pthread_setname_np(ender_.native_handle(), "rueda-nccl-end"));
  const std::lock_guard lock(state_->mutex);
  state_->begun = true;
  return {};
}

/// Takes the lock for calls. Fails once nothing more may be called; then it does not wait for an abort that hangs.
Status Communicators::enter(State& state, std::unique_lock<std::mutex>& calls) {
  const auto limit = Clock::now() + kMostForOthers;
  while (!state.over.load()) {
    if (calls.try_lock()) {
      if (!state.over.load()) return {};
      calls.unlock();
    }
    if (Clock::now() > limit) return does_not_return(state.slow_call.load());
    std::this_thread::yield();  // the holder is in a call of microseconds
  }
  return is_over();
}

Status Communicators::make(CommunicatorKey key, const Device& device, std::vector<MemberProcess> members, int member,
                           const NcclId& id, core::EngineCall& host) {
  {
    std::unique_lock calls(state_->calls, std::defer_lock);
    RUEDA_RETURN_IF_ERROR(enter(*state_, calls));
    const Current current(device);
    if (current.result() != CUDA_SUCCESS) {
      return {Code::kSystem, failure_of(device.driver(), "cuCtxPushCurrent", current.result())};
    }
    NcclConfig config;
    NcclComm made = nullptr;
    const NcclResult result = state_->nccl->init(&made, static_cast<int>(members.size()), id, member, &config);
    if (!begun(result)) return nccl_failure(*state_->nccl, "ncclCommInitRankConfig", result, nullptr);
    state_->by_key[key] = Communicator(made, &device, std::move(members));
    state_->device.store(&device);
  }
  return await(key, "ncclCommInitRankConfig", host);
}

/// Until NCCL says so, nothing may be put into the stream behind what was called: its own work might not be there yet.
Status Communicators::await(CommunicatorKey key, const char* call, core::EngineCall& host) {
  Status failure;
  const auto ready = [&] {
    std::unique_lock calls(state_->calls, std::defer_lock);
    failure = enter(*state_, calls);
    if (!failure.ok()) return true;
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

/// A null handle is a refusal, too: NCCL_LOCAL_REGISTER=0 asks for it.
Status Communicators::register_memory(CommunicatorKey key, void* memory, size_t bytes, core::EngineCall& host) {
  NcclResult result = NcclResult::kSuccess;
  {
    std::unique_lock calls(state_->calls, std::defer_lock);
    RUEDA_RETURN_IF_ERROR(enter(*state_, calls));
    Communicator& communicator = state_->by_key.at(key);
    const Current current(*communicator.device);
    result = state_->nccl->register_memory(communicator.handle, memory, bytes, &communicator.registration);
    if (result == NcclResult::kSuccess && communicator.registration == nullptr) {
      return {Code::kUnsupported, "NCCL registers no memory here"};
    }
    if (!begun(result)) {
      communicator.registration = nullptr;
      return {Code::kUnsupported, fmt::format("ncclCommRegister: {}", state_->nccl->error_text(result))};
    }
  }
  return result == NcclResult::kInProgress ? await(key, "ncclCommRegister", host) : Status();
}

Status Communicators::deregister_memory(CommunicatorKey key) {
  std::unique_lock calls(state_->calls, std::defer_lock);
  RUEDA_RETURN_IF_ERROR(enter(*state_, calls));
  Communicator& communicator = state_->by_key.at(key);
  if (communicator.registration == nullptr) return {};
  const Current current(*communicator.device);
  static_cast<void>(
      state_->nccl->deregister_memory(communicator.handle, std::exchange(communicator.registration, nullptr)));
  return {};
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
    RUEDA_RETURN_IF_ERROR(enter(*state_, calls));
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
  RUEDA_RETURN_IF_ERROR(enter(*state_, calls));
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

}  // namespace rueda::cuda
