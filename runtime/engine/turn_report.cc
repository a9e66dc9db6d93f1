// What ranks tell each other about themselves, beside agreement.
#include <fmt/format.h>

#include "runtime/engine/control_frames.h"
#include "runtime/engine/turn.h"

namespace rueda::core {

std::vector<Stalled> Turn::stalled(SteadyClock::time_point now) {
  return arbiter_ ? arbiter_->stalled(now) : std::vector<Stalled>();
}

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
  if (const auto asked = timeline.take_clock_ask()) send(0, encode_clock_ask(*asked), kClockAskFrame, Urgency::kRing);
  if (const std::optional<TimelinePiece> piece = timeline.take_piece()) {
    send(0, encode(*piece), kTimelineFrame, piece->full ? Urgency::kWithNextTurn : Urgency::kRing);
  }
  return true;
}

Status Turn::dispatch_timeline(int rank, std::byte kind, std::span<const std::byte> body) {
  Timeline& timeline = parts_.timeline;
  if (kind == kTimelineFrame && parts_.config.rank == 0) {
    Result<TimelinePiece> piece = decode_timeline_piece(body, rank);
    if (piece.ok()) timeline.received(rank, std::move(piece).value());
    return piece.status();
  }
  if (kind == kClockAskFrame && parts_.config.rank == 0) {
    const Result<SteadyClock::time_point> asked = decode_clock_ask(body, rank);
    if (asked.ok()) {
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
