#pragma once
#include <chrono>
#include <cstddef>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Tells the coordinator to leave callers alone for a moment if they submit one operation after the other and need the
/// core that it would take. That is so if at least `kMany` operations came less than `kGap` apart on average, however
/// many looks found them. They then become few large batches, and the coordinator is not rung for each few of them.
/// Operations that come more slowly, as the gradients of a model do, are looked at at once. (Horovod waits for a cycle
/// time, 1 ms by default, before each look.)
///
/// Pure: a look is handed in with its time. The coordinator owns it; its thread uses it.
class Burst {
 public:
  static constexpr size_t kMany = 16;
  static constexpr std::chrono::microseconds kGap{5};
  static constexpr std::chrono::microseconds kNap{500};

  /// A look has found `operations` new ones. Returns for how long not to look again; zero outside a burst.
  std::chrono::nanoseconds look(size_t operations, SteadyClock::time_point now) {
    const bool close = now - begin_ < (count_ + operations) * kGap;
    count_ += operations;
    const bool burst = close && count_ >= kMany;
    if (burst || !close) {
      begin_ = now;
      count_ = 0;
    }
    return burst ? kNap : std::chrono::nanoseconds(0);
  }

 private:
  SteadyClock::time_point begin_;  ///< `count_` operations have come since
  size_t count_ = 0;
};

}  // namespace rueda::core
