// What ranks tell each other about themselves, beside agreement: questions and answers about stalls, reports of late
// batches, and timelines. Frames of this kind go between any rank and rank 0, in the tree through leaders (`route`).
//
//     rank 0 to others    kAskFrame      kTimelineSwitchFrame   kClockAnswerFrame
//     others to rank 0    kAnswerFrame   kLateFrame             kClockAskFrame      kTimelineFrame
//
// A frame that comes in the wrong direction is an unknown one: its sender breaks the protocol.
#include <fmt/format.h>

#include "runtime/engine/control_frames.h"
#include "runtime/engine/turn.h"

namespace rueda::core {

/// Only the arbiter knows which ranks have not submitted an operation.
std::vector<Stalled> Turn::stalled(SteadyClock::time_point now) {
  return arbiter_ ? arbiter_->stalled(now) : std::vector<Stalled>();
}

/// Rank 0 may be one of those it asks; no frame goes to itself.
void Turn::ask(std::span<const int> ranks, const Ask& ask) {
  for (const int rank : ranks) {
    if (rank == parts_.config.rank) {
      parts_.observer.asked(ask);
    } else {
      send(rank, encode_ask(ask), kAskFrame, Urgency::kRing);
    }
  }
  flush();
}

void Turn::tell_late(const LateBatch& batch) {
  if (parts_.config.rank == 0) return parts_.observer.heard_of_late(batch);
  send(0, encode_late(batch), kLateFrame, Urgency::kRing);
  flush();
}

/// The worker has made these since the last turn.
bool Turn::send_answers() {
  if (parts_.answers.empty()) return false;
  for (const Answer& answer : parts_.answers.take()) {
    if (parts_.config.rank == 0) {
      parts_.observer.answered(0, answer);
    } else {
      send(0, encode_answer(answer), kAnswerFrame, Urgency::kRing);
    }
  }
  return true;
}

/// `rank` is the frame's origin, also if leaders passed it on.
Status Turn::dispatch_report(int rank, std::byte kind, std::span<const std::byte> body) {
  if (kind == kAskFrame && rank == 0) {
    const Result<Ask> ask = decode_ask(body, rank);
    if (ask.ok()) parts_.observer.asked(ask.value());
    return ask.status();
  }
  if (kind == kAnswerFrame && parts_.config.rank == 0) {
    const Result<Answer> answer = decode_answer(body, rank);
    if (answer.ok()) parts_.observer.answered(rank, answer.value());
    return answer.status();
  }
  if (kind == kLateFrame && parts_.config.rank == 0) {
    const Result<LateBatch> batch = decode_late(body, rank, parts_.config.size);
    if (batch.ok()) parts_.observer.heard_of_late(batch.value());
    return batch.status();
  }
  return dispatch_timeline(rank, kind, body);
}

/// Costs one load unless a timeline is recorded.
bool Turn::send_timeline() {
  Timeline& timeline = parts_.timeline;
  if (!timeline.frames_waiting()) return false;
  if (parts_.config.rank == 0) {
    const std::optional<TimelineSwitch> change = timeline.take_switch();
    for (int rank = 1; change && rank < parts_.config.size; ++rank) {
      send(rank, encode(*change), kTimelineSwitchFrame, Urgency::kRing);
    }
    return true;
  }
  // The time is read as late as it can be, and the question leaves before a long piece: both would make the trip
  // longer.
  if (const auto asked = timeline.take_clock_ask()) send(0, encode_clock_ask(*asked), kClockAskFrame, Urgency::kRing);
  if (const std::optional<TimelinePiece> piece = timeline.take_piece()) {
    // A full piece is one of many and wakes no one; rank 0 takes it when it looks anyway.
    send(0, encode(*piece), kTimelineFrame, piece->full ? Urgency::kWithNextTurn : Urgency::kRing);
  }
  return true;
}

/// The last of the dispatchers: what it does not know, no part of this version sends.
Status Turn::dispatch_timeline(int rank, std::byte kind, std::span<const std::byte> body) {
  Timeline& timeline = parts_.timeline;
  if (kind == kTimelineFrame && parts_.config.rank == 0) {
    Result<TimelinePiece> piece = decode_timeline_piece(body, rank);
    if (!piece.ok()) return piece.status();
    timeline.received(rank, std::move(piece).value());
    return {};
  }
  if (kind == kClockAskFrame && parts_.config.rank == 0) {
    const Result<SteadyClock::time_point> asked = decode_clock_ask(body, rank);
    if (asked.ok()) {  // answered within this very turn, so that the trip is short
      send(rank, encode(ClockAnswer{asked.value(), SteadyClock::now()}), kClockAnswerFrame, Urgency::kRing);
    }
    return asked.status();
  }
  if (kind == kTimelineSwitchFrame && rank == 0) {
    const Result<TimelineSwitch> change = decode_timeline_switch(body, rank);
    if (change.ok()) timeline.switched(change.value());
    return change.status();
  }
  if (kind == kClockAnswerFrame && rank == 0) {
    const Result<ClockAnswer> answer = decode_clock_answer(body, rank);
    if (answer.ok()) timeline.clock_answered(answer.value());
    return answer.status();
  }
  return {Code::kPeerLost, fmt::format("rank {} sent a control frame of unknown kind {}", rank, static_cast<int>(kind)),
          rank};
}

}  // namespace rueda::core
