// Tensors of a case in a row. The stride makes their addresses multiples of 16 and not of a cache line, as they are in
// a program that cuts one block into tensors.
#include "tests/support/case_memory.h"

#include <cstring>
#include <stdexcept>

namespace rueda::core {

namespace {

constexpr size_t kGapBytes = 24;
constexpr size_t kStride = 16;
constexpr std::byte kGap{0xa5};

}  // namespace

CaseMemory::CaseMemory(TensorArena* arena, size_t bytes, size_t tensors) : arena_(arena) {
  if (arena_ == nullptr) return;
  const size_t all = bytes + (kGapBytes + kStride) * tensors + 1;
  auto taken = arena_->take(all);
  if (!taken.ok()) throw std::runtime_error(taken.status().sentence());
  block_ = taken.value();
  std::memset(block_, std::to_integer<int>(kGap), all);
}

CaseMemory::~CaseMemory() {
  if (block_ != nullptr) arena_->give_back(block_);
}

std::span<std::byte> CaseMemory::place(size_t bytes) {
  if (arena_ == nullptr) return heap_.emplace_back(bytes);
  const std::span<std::byte> tensor(block_ + placed_, bytes);
  if (bytes != 0) std::memset(tensor.data(), 0, bytes);
  placed_ = (placed_ + bytes + kGapBytes + kStride - 1) / kStride * kStride;
  placed_tensors_.push_back(tensor);
  return tensor;
}

int CaseMemory::first_overrun() const {
  for (size_t i = 0; i < placed_tensors_.size(); ++i) {
    const bool last = i + 1 == placed_tensors_.size();
    const std::byte* const end = last ? block_ + placed_ : placed_tensors_[i + 1].data();
    for (const std::byte* at = placed_tensors_[i].data() + placed_tensors_[i].size(); at != end; ++at) {
      if (*at != kGap) return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace rueda::core
