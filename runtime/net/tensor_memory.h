#pragma once
#include <cstddef>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// Memory for tensors, as callers get it.
struct TensorMemory {
  std::byte* data = nullptr;  ///< zeros, aligned to a page at least
  size_t bytes = 0;           ///< whole pages: at least what was asked for
  bool shared = false;        ///< ranks of this host can map it
};

/// Takes memory from `arena`, or private memory if that is null. The block keeps the arena alive until it is freed, so
/// it may outlive its session. Any thread. Returns kSystem as `TensorArena::take`, or if there is no private memory.
Result<TensorMemory> allocate_tensor_memory(const std::shared_ptr<TensorArena>& arena, size_t bytes);

/// Frees what `allocate_tensor_memory` returned; does nothing if it is null. Any thread, also in a forked child, where
/// nothing of the parent's is freed. Returns kInvalidArgument if no block begins there.
Status free_tensor_memory(void* data);

}  // namespace rueda::core
