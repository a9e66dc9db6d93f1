// Counts where callers sleep, and follows from caller to caller what the ranks of a host have published. Several
// callers of one rank may count at once: a core is then published a little earlier or later.
#include "runtime/engine/lane_cores.h"

#include <algorithm>

namespace rueda::core {

void LaneCores::caller_slept(int core) {
  const uint32_t value = static_cast<uint32_t>(core) + 1;
  std::atomic<uint32_t>& mine = *words_[rank_];
  if (mine.load(std::memory_order_relaxed) == value) {
    if (in_a_row_.load(std::memory_order_relaxed) != 0) in_a_row_.store(0, std::memory_order_relaxed);
    return;
  }
  if (latest_.exchange(value, std::memory_order_relaxed) != value) in_a_row_.store(0, std::memory_order_relaxed);
  if (in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 < kSame) return;
  in_a_row_.store(0, std::memory_order_relaxed);
  mine.store(value, std::memory_order_relaxed);
}

/// The local rank whose home was published; as many as there are ranks if it is nobody's.
size_t LaneCores::home_of(uint32_t published) const {
  const auto found = std::lower_bound(cores_.begin(), cores_.end(), published,
                                      [](int core, uint32_t word) { return static_cast<uint32_t>(core) + 1 < word; });
  if (found == cores_.end() || static_cast<uint32_t>(*found) + 1 != published) return words_.size();
  return static_cast<size_t>(found - cores_.begin());
}

/// Usually the caller is at home, and this ends at once.
int LaneCores::core() const {
  size_t first = words_.size(), at = rank_;
  for (size_t steps = 0; steps < words_.size(); ++steps) {
    at = home_of(words_[at]->load(std::memory_order_relaxed));
    if (steps == 0) first = at;
    if (at == rank_) return cores_[first];
    if (at == words_.size()) break;
  }
  return cores_[rank_];
}

}  // namespace rueda::core
