#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// Memory for the tensors of one test batch: of the heap, where sanitizers see what reaches beyond a tensor, or in a
/// block of an arena, with gaps of known content between the tensors. Used by one thread.
class CaseMemory {
 public:
  /// Room for `tensors` of `bytes` in all. `arena` may be null, and outlives the memory. Throws std::runtime_error if
  /// the arena has no room.
  CaseMemory(TensorArena* arena, size_t bytes, size_t tensors);
  ~CaseMemory();
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  /// Zeros for the next tensor.
  std::span<std::byte> place(size_t bytes);
  /// The number of the first tensor behind which something was written; -1 if there is none.
  int first_overrun() const;

 private:
  TensorArena* const arena_;
  std::byte* block_ = nullptr;
  size_t placed_ = 0;                         ///< bytes of the block that have been given out
  std::vector<std::vector<std::byte>> heap_;  ///< without an arena
  std::vector<std::span<std::byte>> placed_tensors_;
};

}  // namespace rueda::core
