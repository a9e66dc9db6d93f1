// Counts where callers sleep, and compares what the ranks of a host have published. Several callers of one rank may
// count at once: a count that is lost delays a move, and nothing else.
#include "runtime/engine/lane_cores.h"

namespace rueda::core {

void LaneCores::caller_sleeps(int core) {
  const uint32_t value = static_cast<uint32_t>(core) + 1;
  std::atomic<uint32_t>& mine = *words_.front();
  if (mine.load(std::memory_order_relaxed) == value) {
    if (in_a_row_.load(std::memory_order_relaxed) != 0) in_a_row_.store(0, std::memory_order_relaxed);
    return;
  }
  if (latest_.exchange(value, std::memory_order_relaxed) != value) in_a_row_.store(0, std::memory_order_relaxed);
  if (in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 < kSame) return;
  in_a_row_.store(0, std::memory_order_relaxed);
  mine.store(value, std::memory_order_relaxed);
}

/// Usually the caller is at home, and so are the lanes then, wherever the others are.
int LaneCores::core() const {
  const uint32_t mine = words_.front()->load(std::memory_order_relaxed);
  if (mine == 0 || mine == static_cast<uint32_t>(home_) + 1) return home_;
  for (size_t i = 1; i < words_.size(); ++i) {
    const uint32_t value = words_[i]->load(std::memory_order_relaxed);
    if (value == 0) return home_;
    for (size_t j = 0; j < i; ++j) {
      if (words_[j]->load(std::memory_order_relaxed) == value) return home_;
    }
  }
  return static_cast<int>(mine) - 1;
}

}  // namespace rueda::core
