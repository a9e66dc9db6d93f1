#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda/nccl_kernel.h"
#include "tests/support/cuda/nccl_standin.h"
#include "tests/support/cuda/standin.h"

namespace rueda::test {

/// What the stand-in's functions share. One for the process; any thread.
struct NcclState {
  static NcclState& one();
  /// Each function of NCCL begins with it: what the call has to return without doing anything, or kSuccess.
  cuda::NcclResult begin(const std::string& function);
  /// Whether the function is to hang now.
  bool hangs(const std::string& function);
  /// Blocks while the function hangs.
  void pass(const std::string& function);

  std::mutex mutex;
  std::condition_variable changed;
  NcclCounts counts;                                                 ///< under the mutex, as all that follows
  std::map<std::string, std::pair<int, cuda::NcclResult>> failures;  ///< calls left before it fails, and how
  std::string hanging;
  std::vector<const std::byte*> registered;  ///< where registered memory begins, once for each registration
};

/// The stand-in for the driver that the process uses.
StandinCuda& standin_driver();

/// The communicator's own part, which its kernels share: they may be in a stream when it has ended.
struct NcclShared {
  std::shared_ptr<Board> board;
  int ranks = 0;
  int rank = 0;
  std::atomic<bool> stop{false};
  NcclFaults faults;
  std::atomic<int> launched{0};  ///< kernels in streams, until they have run
};

/// A communicator: what was called goes to the stream on a thread of its own, after a time by seed, and until then it
/// is in progress. Its owner calls it from one thread at a time, or `misuses` counts it.
class StandinCommunicator {
 public:
  StandinCommunicator(const cuda::NcclId& id, int ranks, int rank, int device);
  ~StandinCommunicator();
  StandinCommunicator(const StandinCommunicator&) = delete;
  StandinCommunicator& operator=(const StandinCommunicator&) = delete;

  cuda::NcclResult state();
  /// Whether an operation may begin; else it is a misuse.
  bool may_begin();
  /// Launches a group's operations.
  cuda::NcclResult launch(std::vector<NcclOperation> group, CUstream stream);
  cuda::NcclResult finalize();
  bool finalized() const { return finalized_; }
  /// The kernels end; does not wait.
  void stop() { shared_->stop.store(true); }
  /// Waits for its thread and its kernels.
  void end();

  std::atomic<int> inside{0};         ///< threads in functions of this communicator
  std::atomic<bool> aborting{false};  ///< for good
  std::map<int, double> scaled_sums;  ///< operators by number
  int next_operator = 5;

  /// Registers memory, and undoes it. The number is a handle.
  uintptr_t register_memory(const std::byte* begin, size_t bytes);
  bool deregister_memory(uintptr_t number);
  /// Whether the address is null or lies in registered memory.
  bool covers(const std::byte* address) const;

 private:
  cuda::NcclResult start(std::function<cuda::NcclResult()> task);
  cuda::NcclResult meet(int device);

  const std::shared_ptr<NcclShared> shared_ = std::make_shared<NcclShared>();
  const cuda::NcclId id_;
  std::atomic<cuda::NcclResult> state_{cuda::NcclResult::kInProgress};
  std::thread thread_;
  bool finalized_ = false;
  std::map<uintptr_t, std::span<const std::byte>> registered_;  ///< by number
  uintptr_t next_registration_ = 1;
};

/// Tells an abort for a scope that a thread is inside of a communicator: in a call, or between a group's first call and
/// the end of the group. To come inside while an abort runs is a misuse.
class Inside {
 public:
  explicit Inside(StandinCommunicator& communicator);
  ~Inside() { --communicator_.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  StandinCommunicator& communicator_;
};

}  // namespace rueda::test
