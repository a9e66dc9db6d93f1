#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "ops/cuda/devices.h"
#include "ops/cuda/member_processes.h"
#include "ops/cuda/nccl_library.h"
#include "runtime/engine/device_engine.h"

namespace rueda::cuda {

/// Whom a communicator connects: all members of a process set, or those of this rank's host.
enum class Reach : uint8_t { kSet, kHost };
using CommunicatorKey = std::pair<core::SetId, Reach>;

/// NCCL's communicators of one epoch, by set and reach. They do not block, so that they can be aborted whatever they
/// wait for: each call of NCCL is made under one lock, and between calls `EngineCall::until` waits.
///
///   device lane    make ─▶ call ─▶ call ...                 under `calls`
///   ender          finalize ─▶ look ... ─▶ destroy          under `calls`; what takes too long is aborted
///                  abort: one group, after which nothing more is called
///
/// The ender is a thread of its own, because NCCL may not come back from any of this. The state is shared with it: then
/// both are left to the process.
class Communicators {
 public:
  explicit Communicators(const rueda_host& host) : state_(std::make_shared<State>(host)) {}
  ~Communicators() { close(); }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Starts the ender. Returns kSystem if the machine has no thread to give. The device lane, as what follows.
  Status begin(const Nccl& nccl);
  /// Makes a communicator, together with all its members; this rank is number `member`. Fails if NCCL does, or as
  /// `EngineCall::until`.
  Status make(CommunicatorKey key, const Device& device, std::vector<MemberProcess> members, int member,
              const NcclId& id, core::EngineCall& host);
  /// Registers memory with a communicator, once; it is deregistered before the communicator ends. Returns kUnsupported
  /// if NCCL refuses: then all goes on without. Fails as `EngineCall::until`.
  Status register_memory(CommunicatorKey key, void* memory, size_t bytes, core::EngineCall& host);
  /// Undoes it, if it was done.
  Status deregister_memory(CommunicatorKey key);
  /// Calls of NCCL that are made in one group leave as one kernel. Long lists are cut into several groups, on all
  /// members alike, unless sends and receives have to meet in one.
  enum class Grouping { kSeveral, kOne };
  using Step = std::function<NcclResult(const Nccl& nccl, NcclComm communicator)>;
  /// Makes the calls, and waits until NCCL has put all of them into the stream. Sentences call them `name`.
  Status launch(CommunicatorKey key, const char* name, std::span<const Step> steps, Grouping grouping,
                core::EngineCall& host);
  /// The communicator's operator that multiplies its inputs by `scale` before it adds them up; made at first use.
  Result<NcclOp> scaled_sum(CommunicatorKey key, NcclType type, double scale);
  /// Lets the ender end the communicators of sets that `forget` has named. Nothing is launched of any communicator: to
  /// end one may wait for the GPU.
  void end_forgotten();

  /// See `DeviceEngine`.
  void abort();
  Status check();
  void forget(core::SetId set);
  /// Ends all in order, or waits for the abort. Returns false if NCCL did not come back. Once CUDA has ended, it calls
  /// nothing.
  bool close();

 private:
  struct Communicator {
    Communicator() = default;
    Communicator(NcclComm made, const Device* on, std::vector<MemberProcess> all)
        : handle(made), device(on), members(std::move(all)) {}
    NcclComm handle = nullptr;
    const Device* device = nullptr;
    std::vector<MemberProcess> members;
    std::map<std::pair<int, double>, NcclOp> scaled_sums;
    void* registration = nullptr;
    std::vector<int> dead;  ///< while it ends: the first ranks whose processes were found to have ended
    bool late = false;      ///< it does not end in order
  };
  struct State {
    explicit State(const rueda_host& known) : host(known) {}
    const rueda_host& host;
    const Nccl* nccl = nullptr;
    std::atomic<const Device*> device{nullptr};  ///< of the last communicator that was begun
    std::mutex calls;                            ///< held in each call of NCCL; by the ender for as long as it takes
    std::map<CommunicatorKey, Communicator> by_key;  ///< under `calls`, as the next
    std::vector<Communicator> ending;                ///< finalized
    std::atomic<bool> over{false};                   ///< nothing more is called, but by the ender
    std::atomic<const char*> slow_call{nullptr};     ///< what the ender is in and may not come back from
    std::mutex mutex;                                ///< for what follows
    std::condition_variable changed;
    bool begun = false;
    std::vector<core::SetId> forgotten;  ///< none before it has begun
    std::vector<core::SetId> to_end;     ///< of them, those that the device lane lets the ender end
    enum class Order { kNone, kEnd, kAbort } order = Order::kNone;
    bool ended = false;  ///< the ender's work is done
  };
  class SlowCall;
  static Status enter(State& state, std::unique_lock<std::mutex>& calls);
  Status group(CommunicatorKey key, const char* name, std::span<const Step> steps, core::EngineCall& host);
  Status await(CommunicatorKey key, const char* call, core::EngineCall& host);

  // The ender's thread.
  static void run_ender(const std::shared_ptr<State>& state);
  static void cannot_end(State& state);
  static void finalize(State& state, Communicator& communicator);
  static void finalize_sets(State& state, std::span<const core::SetId> sets);
  static void finalize_all(State& state);
  static bool look_at_ending(State& state, std::chrono::steady_clock::time_point limit);
  static void destroy(State& state, const Communicator& communicator);
  static void abort_group(State& state, std::span<const Communicator> all);
  static void abort_all(State& state);
  static bool cuda_has_ended(const State& state);

  std::shared_ptr<State> state_;
  std::thread ender_;
};

}  // namespace rueda::cuda
