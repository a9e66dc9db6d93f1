#pragma once
#include <array>
#include <memory>
#include <span>

#include "ops/cuda/driver.h"
#include "ops/cuda/fold_task.h"
#include "ops/cuda/pack_tiles.h"

namespace rueda::cuda {

class Device;

/// The kernels of pack.cu and fold.cu on one GPU, from their loading to the end of the process. Immutable; any thread.
class Kernels {
 public:
  /// Loads them from `image`; later launches load nothing more. May wait for the GPU. Returns kUnsupported if the image
  /// is empty, or the driver cannot load it, whatever the reason; the sentence says why.
  static Result<std::unique_ptr<Kernels>> load(const Device& device, std::span<const std::byte> image);
  /// Puts the task into the stream, as one launch: none if it has no tiles. The parameters are copied; a table in the
  /// device's memory stays as it is until the stream has run the task. Returns kSystem if the GPU fails.
  Status launch(const PackParameters& parameters, CUstream stream) const;
  /// The same for a slice: none if it has no bytes. Addresses and lengths are multiples of `kFoldBytes`.
  Status launch(const FoldParameters& parameters, CUstream stream) const;

 private:
  Kernels(const Device& device, unsigned most_blocks) : device_(device), most_blocks_(most_blocks) {}

  Status put(CUfunction function, unsigned blocks, unsigned threads, const void* parameters, CUstream stream) const;

  const Device& device_;
  const unsigned most_blocks_;
  std::array<CUfunction, kPackKernels> pack_{};
  CUfunction fold_{};
};

/// Returns the kernel that does the task.
PackKernel kernel_for(const PackTask& task);

}  // namespace rueda::cuda
