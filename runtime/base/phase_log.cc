// When the phases of a batch ran. During the run only ticks are read, which cost a fraction of a clock; at the end they
// become times. The rate of the ticks is measured on the batch itself, between its two ends, so no calibration is
// needed and a change of frequency between batches does no harm.
#include "runtime/base/phase_log.h"

#include <algorithm>

namespace rueda::core {
namespace {

struct Moment {
  uint64_t ticks = 0;
  SteadyClock::time_point time;
};

/// Reads ticks and clock at one moment, as nearly as possible: the best of three tries, by the ticks that passed during
/// it. A thread that loses its core in the middle of one try then does no harm.
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
  // No time lies outside the batch, even if the ticks of two cores differ a little.
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
