// A communicator of the stand-in: it comes to be when all ranks have come, and its work enters the stream late, so that
// a caller that does not wait for the end of "in progress" puts things into the stream in the wrong order.
#include "tests/support/cuda/nccl_communicator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/cuda/streams.h"

namespace rueda::test {
namespace {

using cuda::NcclResult;

/// Waits until `ready`, looking again and again: other processes ring no bell here. Returns false if `stop` was set.
template <typename Ready>
bool look_until(const std::atomic<bool>& stop, Ready&& ready) {
  std::mutex mutex;
  std::condition_variable never;
  while (!ready()) {
    if (stop.load()) return false;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::microseconds(50));
  }
  return true;
}

int variable(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

/// How long a call is in progress.
std::chrono::microseconds progress_time() {
  static const auto most = static_cast<unsigned>(variable("STANDIN_NCCL_PROGRESS_US", 0));
  static std::atomic<unsigned> seed{static_cast<unsigned>(variable("STANDIN_NCCL_SEED", 1))};
  if (most == 0) return std::chrono::microseconds(0);
  unsigned mixed = seed.fetch_add(0x9E3779B9u);
  mixed = (mixed ^ (mixed >> 16)) * 0x7feb352du;
  return std::chrono::microseconds((mixed ^ (mixed >> 15)) % most);
}

}  // namespace

StandinCuda& standin_driver() {
  static StandinCuda* const one = [] {
    void* const library = ::dlopen(std::getenv("RUEDA_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<StandinCuda* (*)()>(::dlsym(library, "rueda_standin_cuda"))();
  }();
  return *one;
}

NcclState& NcclState::one() {
  static auto* const state = new NcclState;
  return *state;
}

NcclResult NcclState::begin(const std::string& function) {
  if (standin_driver().has_ended()) {
    std::fprintf(stderr, "stand-in for NCCL: %s after the end of the driver\n", function.c_str());
    return NcclResult::kUnhandledCudaError;
  }
  const std::lock_guard lock(mutex);
  const auto failing = failures.find(function);
  if (failing == failures.end() || --failing->second.first > 0) return NcclResult::kSuccess;
  ++counts.failures;
  return failing->second.second;
}

bool NcclState::hangs(const std::string& function) {
  const std::lock_guard lock(mutex);
  return hanging == function;
}

void NcclState::pass(const std::string& function) {
  std::unique_lock lock(mutex);
  ++counts.held;
  changed.wait(lock, [&] { return hanging != function; });
  --counts.held;
}

Inside::Inside(StandinCommunicator& communicator) : communicator_(communicator) {
  ++communicator_.inside;
  if (!communicator_.aborting.load()) return;
  const std::lock_guard lock(NcclState::one().mutex);
  ++NcclState::one().counts.misuses;
}

StandinCommunicator::StandinCommunicator(const cuda::NcclId& id, int ranks, int rank, int device) : id_(id) {
  shared_->ranks = ranks;
  shared_->rank = rank;
  static_cast<void>(start([this, device] { return meet(device); }));
}

/// What an abort finds registered goes with the communicator.
StandinCommunicator::~StandinCommunicator() {
  end();
  while (!registered_.empty()) static_cast<void>(deregister_memory(registered_.begin()->first));
}

uintptr_t StandinCommunicator::register_memory(const std::byte* begin, size_t bytes) {
  registered_[next_registration_] = {begin, bytes};
  const std::lock_guard lock(NcclState::one().mutex);
  NcclState::one().registered.push_back(begin);
  ++NcclState::one().counts.registrations;
  ++NcclState::one().counts.registered;
  return next_registration_++;
}

bool StandinCommunicator::deregister_memory(uintptr_t number) {
  const auto found = registered_.find(number);
  if (found == registered_.end()) return false;
  const std::lock_guard lock(NcclState::one().mutex);
  auto& all = NcclState::one().registered;
  all.erase(std::find(all.begin(), all.end(), found->second.data()));
  --NcclState::one().counts.registered;
  registered_.erase(found);
  return true;
}

bool StandinCommunicator::covers(const std::byte* address) const {
  if (address == nullptr) return true;
  return std::any_of(registered_.begin(), registered_.end(), [address](const auto& each) {
    return address >= each.second.data() && address < each.second.data() + each.second.size();
  });
}

NcclResult StandinCommunicator::meet(int device) {
  shared_->board = open_board(id_);
  if (shared_->board == nullptr) return NcclResult::kSystemError;
  auto& members = shared_->board->members;
  BoardMember& own = members[static_cast<size_t>(shared_->rank)];
  own.gpu.back() = static_cast<char>(device);  // of this host
  static_cast<void>(::gethostname(own.gpu.data(), own.gpu.size() - 1));
  const auto goes_on = [] { return !NcclState::one().hangs("ncclCommInitRankConfig"); };
  if (!look_until(shared_->stop, goes_on)) return NcclResult::kInternalError;
  own.joined.store(1);
  const bool met = look_until(shared_->stop, [&] {
    for (int r = 0; r < shared_->ranks; ++r) {
      if (members[static_cast<size_t>(r)].joined.load() == 0) return false;
    }
    return true;
  });
  if (!met) return NcclResult::kInternalError;
  forget_board(id_);
  static const bool share = variable("STANDIN_NCCL_SHARED_GPU", 0) != 0;
  for (int r = 0; r < shared_->ranks; ++r) {
    if (!share && r != shared_->rank && members[static_cast<size_t>(r)].gpu == own.gpu) {
      return NcclResult::kInvalidUsage;
    }
  }
  return NcclResult::kSuccess;
}

/// The last task has ended when the next one may begin, so the join does not wait.
NcclResult StandinCommunicator::start(std::function<NcclResult()> task) {
  if (thread_.joinable()) thread_.join();
  state_.store(NcclResult::kInProgress);
  thread_ = std::thread([this, work = std::move(task)] {
    const auto until = std::chrono::steady_clock::now() + progress_time();
    const auto due = [until] { return std::chrono::steady_clock::now() >= until; };
    const bool in_time = look_until(shared_->stop, due);
    state_.store(in_time ? work() : NcclResult::kInternalError);
  });
  return NcclResult::kInProgress;
}

NcclResult StandinCommunicator::state() {
  if (const NcclResult injected = NcclState::one().begin("state"); injected != NcclResult::kSuccess) return injected;
  return shared_->faults.any() ? NcclResult::kInvalidUsage : state_.load();
}

bool StandinCommunicator::may_begin() {
  if (state_.load() == NcclResult::kSuccess && !finalized_) return true;
  const std::lock_guard lock(NcclState::one().mutex);
  ++NcclState::one().counts.misuses;
  return false;
}

NcclResult StandinCommunicator::launch(std::vector<NcclOperation> group, CUstream stream) {
  if (shared_->stop.load()) return NcclResult::kInvalidUsage;  // it was aborted meanwhile
  ++shared_->launched;
  return start([shared = shared_, work = std::move(group), stream] {
    standin_driver().launch(stream, [shared, work] {
      static_cast<void>(
          run_nccl_kernel(*shared->board, shared->ranks, shared->rank, work, shared->stop, shared->faults));
      if (shared->faults.mixed.load()) {
        const std::lock_guard lock(NcclState::one().mutex);
        ++NcclState::one().counts.mixed;
      }
      --shared->launched;
    });
    static const bool blocking = variable("CUDA_LAUNCH_BLOCKING", 0) == 1;
    if (blocking) static_cast<void>(look_until(shared->stop, [&] { return shared->launched.load() == 0; }));
    return NcclResult::kSuccess;
  });
}

NcclResult StandinCommunicator::finalize() {
  if (!may_begin()) return NcclResult::kInvalidUsage;
  if (!registered_.empty()) {
    const std::lock_guard lock(NcclState::one().mutex);
    ++NcclState::one().counts.misuses;
    return NcclResult::kInvalidUsage;
  }
  finalized_ = true;
  return start([shared = shared_] {
    static const bool together = variable("STANDIN_NCCL_END_TOGETHER", 0) != 0;
    auto& members = shared->board->members;
    members[static_cast<size_t>(shared->rank)].finalized.store(1);
    const bool through = look_until(shared->stop, [&] {
      if (shared->launched.load() != 0) return false;
      const auto is_there = [](const BoardMember& member) { return member.finalized.load() != 0; };
      return !together || std::all_of(members.begin(), members.begin() + shared->ranks, is_there);
    });
    return through ? NcclResult::kSuccess : NcclResult::kInternalError;
  });
}

void StandinCommunicator::end() {
  if (thread_.joinable()) thread_.join();
  static const std::atomic<bool> never{false};
  static_cast<void>(look_until(never, [&] { return shared_->launched.load() == 0; }));
}

}  // namespace rueda::test
