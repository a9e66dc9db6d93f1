#pragma once
#include <atomic>
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
#include "ops/cuda/nccl_library.h"
#include "runtime/engine/device_engine.h"

namespace rueda::cuda {

/// Whom a communicator connects: all members of a process set, or those of this rank's host.
enum class Reach : uint8_t { kSet, kHost };
using CommunicatorKey = std::pair<core::SetId, Reach>;

/// NCCL's communicators of one epoch, by set and reach. They do not block, so that they can be aborted whatever they
/// wait for: each call of NCCL is made under one lock, and between calls `EngineCall::until` waits.
///
///   device lane    make ─▶ call ─▶ call ...                         all under `calls`
///   aborter                         abort: under `calls`, one group, after which nothing more is called
///
/// The state is shared with the aborter's thread: if NCCL does not come back from an abort, both are left to the
/// process.
class Communicators {
 public:
  explicit Communicators(const rueda_host& host) : host_(host), state_(std::make_shared<State>()) {}
  ~Communicators() { close(); }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Starts the thread that aborts. Returns kSystem if the machine has none to give. The device lane, as what follows.
  Status begin(const Nccl& nccl);
  /// Makes a communicator, together with all its members. Fails if NCCL does, or as `EngineCall::until`.
  Status make(CommunicatorKey key, const Device& device, int members, int member, const NcclId& id,
              core::EngineCall& host);
  /// Calls of NCCL that are made in one group leave as one kernel. Long lists are cut into several groups, on all
  /// members alike, unless sends and receives have to meet in one.
  enum class Grouping { kSeveral, kOne };
  using Step = std::function<NcclResult(const Nccl& nccl, NcclComm communicator)>;
  /// Makes the calls, and waits until NCCL has put all of them into the stream. Sentences call them `name`.
  Status launch(CommunicatorKey key, const char* name, std::span<const Step> steps, Grouping grouping,
                core::EngineCall& host);
  /// The communicator's operator that multiplies its inputs by `scale` before it adds them up; made at first use.
  Result<NcclOp> scaled_sum(CommunicatorKey key, NcclType type, double scale);
  /// Ends communicators of sets that `forget` has named, as far as NCCL has them ready; the rest at a later call.
  /// Nothing is launched of any communicator: to end one may wait for the GPU.
  void end_forgotten();

  /// See `DeviceEngine`.
  void abort();
  Status check();
  void forget(core::SetId set);
  /// Returns false if an abort did not come back.
  bool close();

 private:
  struct Communicator {
    NcclComm handle = nullptr;
    const Device* device = nullptr;
    std::map<std::pair<int, double>, NcclOp> scaled_sums;
    bool finalized = false;
  };
  struct State {
    const Nccl* nccl = nullptr;
    std::mutex calls;  ///< held in each call of NCCL; by the aborter for as long as that takes
    std::map<CommunicatorKey, Communicator> by_key;  ///< under `calls`
    std::atomic<bool> over{false};                   ///< nothing more is called, but by the aborter
    std::mutex mutex;                                ///< for what follows
    std::condition_variable changed;
    bool begun = false;
    std::vector<core::SetId> forgotten;  ///< none before it has begun
    enum class Order { kNone, kAbort, kStop } order = Order::kNone;
    bool ended = false;  ///< the aborter's work is done
  };
  static bool enter(State& state, std::unique_lock<std::mutex>& calls);
  static void run_aborter(const std::shared_ptr<State>& state);
  static void abort_all(State& state);
  Status group(CommunicatorKey key, const char* name, std::span<const Step> steps, core::EngineCall& host);
  Status await(CommunicatorKey key, const char* call, core::EngineCall& host);
  static void finalize(State& state, CommunicatorKey key);
  static bool try_end(State& state, CommunicatorKey key, bool overdue);
  void finish_all();

  const rueda_host& host_;
  std::shared_ptr<State> state_;
  std::thread aborter_;
  std::vector<CommunicatorKey> ending_;  ///< finalized; the device lane's
};

}  // namespace rueda::cuda
