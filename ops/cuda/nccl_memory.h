#pragma once
#include <cstddef>

#include "ops/cuda/device.h"
#include "ops/cuda/nccl_library.h"

namespace rueda::cuda {

/// Memory of a GPU that NCCL gives, because it can register that in more ways than other memory. Any thread.
class NcclMemory {
 public:
  /// Gives nothing.
  NcclMemory() = default;
  /// Both outlive it.
  NcclMemory(const Nccl& nccl, const Device& device) : nccl_(&nccl), device_(&device) {}
  /// Returns null if NCCL gives no memory. May wait for what is in the GPU's streams.
  std::byte* allocate(size_t bytes) const;
  /// Takes back what `allocate` gave, once nothing uses it.
  void free(std::byte* memory) const;

 private:
  const Nccl* nccl_ = nullptr;
  const Device* device_ = nullptr;
};

}  // namespace rueda::cuda
