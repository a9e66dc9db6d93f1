#include "runtime/base/phase_log.h"

#include <algorithm>

namespace rueda::core {
namespace {

struct Moment {
  uint64_t ticks = 0;
  SteadyClock::time_point time;
};

/// What both clocks show at once: of three looks that with the shortest way between them, so that a thread that lost
/// its core on the way does not count.
Moment look() {
  Moment best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = ticks();
    const SteadyClock::time_point time = SteadyClock::now();
    const uint64_t way = ticks() - before;
    if (way >= shortest) continue;
    shortest = way;
    best = {before + way / 2, time};
  }
  return best;
}

}  // namespace

void PhaseLog::start() {
  const Moment now = look();
  started_ticks_ = now.ticks;
  started_ = now.time;
  pieces_ = {};
  inside_ = false;
}

PhaseExtents PhaseLog::extents() const {
  const Moment now = look();
  const double whole = static_cast<double>((now.time - started_).count());
  const double rate = now.ticks > started_ticks_ ? whole / static_cast<double>(now.ticks - started_ticks_) : 0;
  const auto time_of = [&](uint64_t ticks) {
    const double since = ticks > started_ticks_ ? static_cast<double>(ticks - started_ticks_) * rate : 0;
    return std::chrono::nanoseconds(static_cast<int64_t>(std::min(since, whole)));
  };
  PhaseExtents extents;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    const Piece& piece = pieces_[phase];
    if (piece.first == 0) continue;
    PhaseExtent& extent = extents[phase];
    extent.first = started_ + time_of(piece.first);
    extent.last = std::max(extent.first, started_ + time_of(piece.last));
    extent.busy = std::min<std::chrono::nanoseconds>(time_of(started_ticks_ + piece.busy), extent.last - extent.first);
  }
  return extents;
}

}  // namespace rueda::core
