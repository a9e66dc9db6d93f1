#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/cuda/device_clock.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/kernels.h"
#include "runtime/base/device_functions.h"

namespace rueda::cuda {

class Device;

/// Whether a mark's time can be asked for, which costs the GPU more.
enum class MarkKind : uint8_t { kPlain, kTimed };

/// A mark in a stream: an event that is used again once it is freed. Its address is the engine's token.
struct Mark {
  CUevent event;
  Device* device;
  MarkKind kind;
  std::shared_ptr<const ClockAnchor> anchor;  ///< of one with a time, while it is in use
};

/// One GPU, from its first tensor to the end of the process: its primary context, which the framework shares, streams
/// for copies, events, and kernels. Any thread. No function waits for the GPU, but that the loading of kernels may.
class Device {
 public:
  /// Returns kSystem if the GPU does not exist or its context cannot be made.
  static Result<std::unique_ptr<Device>> make(const Driver& driver, int index);

  /// Writes the UUID, which no other GPU has. Returns kSystem if the driver does not tell it.
  Status uuid(std::array<char, 16>& id) const;

  /// Returns the kernels, which the first call loads, while other functions go on; kUnsupported if this GPU cannot run
  /// them now. After a failure the next call tries again.
  Result<const Kernels*> kernels();
  CUresult attribute(int& value, CUdevice_attribute which) const {
    return driver_.device_attribute(&value, which, number_);
  }

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  CUstream engine_stream(core::EngineStream which) const { return engine_[static_cast<size_t>(which)]; }
  CUstream notice_stream(core::MarkAsker asker) const { return notices_[static_cast<size_t>(asker)]; }
  /// Whether memory can be allocated and freed in the order of a stream.
  bool has_pools() const { return has_pools_; }

  /// Returns an event that nobody uses; null, with `why`, if none can be made. The context is current.
  Mark* take_mark(MarkKind kind, std::string& why);
  void give_mark(Mark* mark);
  DeviceClock& clock() { return clock_; }
  /// Returns a stream that nobody uses, for what runs on the GPU itself. Returns kSystem if none can be made.
  Result<CUstream> take_stream();
  /// Takes it back once nothing is in it.
  void give_stream(CUstream stream);
  /// Returns whether CUDA has ended in this process. At its exit CUDA's own handler runs before those that were there
  /// first, as Rueda's is: then neither CUDA nor NCCL does anything any more.
  bool cuda_has_ended() const;
  /// NCCL has not come back from a call on this GPU, and is not to be used on it any more.
  void lose_nccl() { nccl_lost_.store(true); }
  bool nccl_lost() const { return nccl_lost_.load(); }

 private:
  Device(const Driver& driver, CUdevice number, CUcontext context)
      : driver_(driver), number_(number), context_(context), clock_(*this) {}
  Status make_streams();
  CUresult make_stream(CUstream& stream) const;

  const Driver& driver_;
  const CUdevice number_;
  const CUcontext context_;
  std::array<CUstream, 2> engine_{};
  std::array<CUstream, 2> notices_{};
  bool has_pools_ = false;
  DeviceClock clock_;
  std::atomic<bool> nccl_lost_{false};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Mark>> marks_;  ///< under the mutex, as the next
  std::array<std::vector<Mark*>, 2> unused_;  ///< by kind
  std::vector<CUstream> unused_streams_;
  std::mutex loading_;
  std::unique_ptr<Kernels> kernels_;  ///< under `loading_`; not changed any more once it is there
};

/// Makes a device's context the current one for a scope, as the thread's own was before. Captures of graphs that other
/// threads record are not disturbed by calls in the scope.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  /// What making it current gave.
  CUresult result() const { return result_; }

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult result_;
};

}  // namespace rueda::cuda
