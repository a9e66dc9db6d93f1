// The state machine between ranks that record and rank 0. Nothing here is urgent or lost: a wish is a flag that stays
// until a turn has taken it, so turns may come as seldom as they like.
#include "runtime/engine/timeline_protocol.h"

#include <algorithm>
#include <utility>

namespace rueda::core {
namespace {

/// Questions at the start. The quickest answer counts.
constexpr int kFirstAsks = 8;

}  // namespace

TimelineProtocol::TimelineProtocol(int size, bool shares_clock)
    : shares_clock_(shares_clock), ended_(static_cast<size_t>(size)), left_(ended_) {}

void TimelineProtocol::begin_asking() {
  asks_left_ = kFirstAsks;
  want_time();
}

std::optional<TimelineSwitch> TimelineProtocol::take_switch() { return std::exchange(switch_, std::nullopt); }

bool TimelineProtocol::take_time_wanted() { return std::exchange(ask_wanted_, false); }

/// A piece waits until rank 0's time is known, because rank 0 writes it with the shift that it brings. The last piece
/// does not wait: rank 0 would wait for it in turn.
std::optional<TimelinePiece> TimelineProtocol::take_piece() {
  if (!piece_wanted_ || (!shares_clock_ && !clock_.shift() && !last_wanted_)) return std::nullopt;
  piece_wanted_ = false;
  return TimelinePiece{std::exchange(last_wanted_, false), false, shift(), {}};
}

/// The first questions follow each other without a pause: each answer brings the next.
void TimelineProtocol::time_told(const ClockAnswer& answer, SteadyClock::time_point now) {
  clock_.answer(answer.asked, answer.answered, now);
  if (asks_left_ > 0 && --asks_left_ > 0) ask_wanted_ = true;
}

bool TimelineProtocol::all_ended() const {
  return std::all_of(ended_.begin() + 1, ended_.end(), [](char ended) { return ended != 0; });
}

}  // namespace rueda::core
