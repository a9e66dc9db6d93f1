// NCCL finds the GPU by the context that is current on the thread. No communicator has a part in this, so it needs no
// lock.
#include "ops/cuda/nccl_memory.h"

namespace rueda::cuda {

std::byte* NcclMemory::allocate(size_t bytes) const {
  if (nccl_ == nullptr || !nccl_->gives_memory()) return nullptr;
  const Current current(*device_);
  void* memory = nullptr;
  if (current.result() != CUDA_SUCCESS || nccl_->allocate(&memory, bytes) != NcclResult::kSuccess) return nullptr;
  return static_cast<std::byte*>(memory);
}

void NcclMemory::free(std::byte* memory) const {
  const Current current(*device_);
  static_cast<void>(nccl_->free(memory));
}

}  // namespace rueda::cuda
