// A list of blocks for each thread, through their first words. All blocks of a list have one size, that of the first
// one that the thread gave: operations are of one size, and another size goes to the C library as before.
#include "runtime/base/spare_blocks.h"

namespace rueda::core {
namespace {

constexpr size_t kMostSpareBlocks = 1024;

struct SpareBlock {
  SpareBlock* next;
};

struct SpareList {
  SpareBlock* first = nullptr;
  size_t count = 0;
  size_t bytes = 0;   ///< of each
  bool over = false;  ///< the thread's objects are being destroyed, this one among them
};

/// Without a destructor, so that its memory may be used until the thread has gone.
thread_local constinit SpareList spare_list;

/// Frees the list when the thread ends.
struct SpareSweeper {
  SpareSweeper() = default;
  SpareSweeper(const SpareSweeper&) = delete;
  SpareSweeper& operator=(const SpareSweeper&) = delete;
  ~SpareSweeper() {
    spare_list.over = true;
    while (spare_list.first != nullptr) {
      SpareBlock* const block = spare_list.first;
      spare_list.first = block->next;
      ::operator delete(block);
    }
    spare_list.count = 0;
  }
};

/// Once for each thread: the first call makes the object whose destructor sweeps.
void sweep_at_the_end() { static thread_local const SpareSweeper sweeper; }

}  // namespace

void* SpareBlocks::take(size_t bytes) {
  SpareBlock* const block = spare_list.first;
  if (block == nullptr || spare_list.bytes != bytes) return ::operator new(bytes);
  spare_list.first = block->next;
  --spare_list.count;
  return block;
}

void SpareBlocks::give(void* block, size_t bytes) noexcept {
  if (spare_list.bytes == 0 && !spare_list.over && bytes >= sizeof(SpareBlock)) {
    sweep_at_the_end();
    spare_list.bytes = bytes;
  }
  if (spare_list.bytes != bytes || spare_list.over || spare_list.count == kMostSpareBlocks)
    return ::operator delete(block);
  auto* const spare = static_cast<SpareBlock*>(block);
  spare->next = spare_list.first;
  spare_list.first = spare;
  ++spare_list.count;
}

}  // namespace rueda::core
