#pragma once
#include <array>
#include <memory>
#include <span>

#include "ops/cuda/driver.h"
#include "ops/cuda/pack_tiles.h"

namespace rueda::cuda {

class Device;

/// The kernels of pack.cu on one GPU, from their loading to the end of the process. Immutable; any thread.
class Kernels {
 public:
  /// Loads them from `image`; later launches load nothing more. May wait for the GPU. Returns kUnsupported if the image
  /// is empty, or the driver cannot load it, whatever the reason; the sentence says why.
  static Result<std::unique_ptr<Kernels>> load(const Device& device, std::span<const std::byte> image);
  /// Puts the task into the stream, as one launch: none if it has no tiles. The parameters are copied; a table in the
  /// device's memory stays as it is until the stream has run the task. Returns kSystem if the GPU fails.
  Status launch(const PackParameters& parameters, CUstream stream) const;

 private:
  Kernels(const Device& device, unsigned most_blocks) : device_(device), most_blocks_(most_blocks) {}

  const Device& device_;
  const unsigned most_blocks_;
  std::array<CUfunction, kPackKernels> functions_{};
};

/// Returns the kernel that does the task.
PackKernel kernel_for(const PackTask& task);

}  // namespace rueda::cuda
