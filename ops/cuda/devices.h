#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ops/cuda/device.h"
#include "ops/cuda/nccl_library.h"
#include "runtime/base/plugin_abi.h"

namespace rueda::cuda {

/// The driver and the GPUs that this process uses. The driver is opened at the first question about it and a GPU at its
/// first tensor, so a job of CPU tensors makes no context. Any thread. One for the process.
class Devices {
 public:
  /// Reads the settings now: later the environment may be changing. `host` outlives it.
  explicit Devices(const rueda_host& host);
  const rueda_host& host() const { return host_; }

  /// Returns the driver; kUnsupported if there is none, the same each time.
  Result<const Driver*> driver();
  /// Returns GPU number `index`. Returns kSystem if it cannot be used, and kUnsupported without a driver or in a forked
  /// child, in which CUDA does not work.
  Result<Device*> of(int32_t index);
  /// Returns NCCL; kUnsupported if there is none, the same each time. Opened at the first call, when a framework has
  /// loaded its own.
  Result<const Nccl*> nccl();
  /// The line of `hvdrun --check-build`: driver, GPUs, NCCL, kernels. Returns kUnsupported without a driver; the
  /// sentence says the rest all the same.
  Result<std::string> describe();

 private:
  const rueda_host& host_;
  const std::string named_driver_;
  const std::string named_nccl_;
  std::mutex mutex_;
  std::optional<Result<Driver>> driver_;  ///< under the mutex, as the next
  std::optional<Result<Nccl>> nccl_;
  std::map<int32_t, std::unique_ptr<Device>> devices_;
};

/// Whether this process is a child that was forked from one with the plug-in. It must not call CUDA.
bool forked();

}  // namespace rueda::cuda
