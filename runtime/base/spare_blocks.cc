// A list of blocks for each thread, through their first words. A thread gets a list when it takes its first block, and
// not when it gives one: to be swept at the thread's end takes memory, and threads that only give would hoard.
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
  size_t bytes = 0;   ///< of each; 0: the thread has taken none
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

/// The thread's object whose destructor sweeps is made here.
void open_list(size_t bytes) {
  if (spare_list.over || bytes < sizeof(SpareBlock)) return;
  static thread_local const SpareSweeper sweeper;
  spare_list.bytes = bytes;
}

}  // namespace

void* SpareBlocks::take(size_t bytes) {
  if (spare_list.bytes == 0) open_list(bytes);
  SpareBlock* const block = spare_list.first;
  if (block == nullptr || spare_list.bytes != bytes) return ::operator new(bytes);
  spare_list.first = block->next;
  --spare_list.count;
  return block;
}

void SpareBlocks::give(void* block, size_t bytes) noexcept {
  if (spare_list.bytes != bytes || spare_list.over || spare_list.count == kMostSpareBlocks)
    return ::operator delete(block);
  auto* const spare = static_cast<SpareBlock*>(block);
  spare->next = spare_list.first;
  spare_list.first = spare;
  ++spare_list.count;
}

}  // namespace rueda::core
