#pragma once
#include "ops/select.h"
#include "tests/support/lane_ranks.h"
#include "tests/support/memory_channels.h"
#include "tests/support/scale.h"

namespace rueda::core {

/// Ranks as threads on one host with everything that an algorithm of the table may ask for.
class TableRig {
 public:
  explicit TableRig(int size) : lanes_(size, options()) {}
  LaneRanks& lanes() { return lanes_; }

 private:
  LaneRanks::Options options() {
    LaneRanks::Options options;
    options.channels = [this](int rank, const Abort& abort) { return hub_.channel_set(rank, abort); };
    options.wake_channels = [this] { hub_.wake_all(); };
    return options;
  }
  MemoryHub hub_;
  LaneRanks lanes_;
};

/// Whether the selector would let the algorithm serve the shape, in private or in shared memory.
inline bool may_serve(const Algorithm& algorithm, const BatchShape& shape) {
  BatchShape in_shared_memory = shape;
  in_shared_memory.shared = true;
  return obstacle(algorithm, shape, Settings()).empty() || obstacle(algorithm, in_shared_memory, Settings()).empty();
}

}  // namespace rueda::core
