// Writes and reads the frames that carry the timeline.
//
// The bytes are pictured in the header. What a peer sends is checked for range as well as for length: times are added
// to each other later, and a sum must not overflow.
#include "runtime/engine/timeline_frames.h"

#include <fmt/format.h>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

// Flags of a switch, then of a piece. An unknown flag breaks the protocol: ranks of one job run one version.
constexpr uint8_t kRecord = 1;
constexpr uint8_t kMarkRounds = 2;
constexpr uint8_t kLast = 1;
constexpr int64_t kMostNanoseconds = INT64_MAX / 4;  // 73 years, so that sums of a few stay in range

/// The rank is in the sentence and in the status: the epoch ends with it.
Status broken_piece(int rank, const char* what) {
  return {Code::kPeerLost, fmt::format("rank {} sent {} that breaks the protocol", rank, what), rank};
}

/// Nanoseconds of the sender's steady clock, which counts from its machine's start: never negative.
void put_moment(WireWriter& writer, SteadyClock::time_point time) { writer.i64(time.time_since_epoch().count()); }

SteadyClock::time_point get_moment(WireReader& reader) {
  const int64_t count = reader.i64();
  if (count < 0 || count > kMostNanoseconds) reader.fail();
  return SteadyClock::time_point(std::chrono::nanoseconds(count));
}

}  // namespace

std::vector<std::byte> encode(const TimelineSwitch& frame) {
  WireWriter writer;
  writer.u8(static_cast<uint8_t>((frame.record ? kRecord : 0) | (frame.mark_rounds ? kMarkRounds : 0)));
  return writer.take();
}

// `full` does not travel: it only decides how urgent the frame is.
std::vector<std::byte> encode(const TimelinePiece& frame) {
  WireWriter writer;
  writer.reserve(frame.records.size() + 16);  // one allocation for a piece of 64 KiB
  writer.u8(frame.last ? kLast : 0);
  writer.i64(frame.shift.count());
  writer.raw(frame.records);
  return writer.take();
}

// The answer brings the question's own time back, so the asker keeps no list of questions.
std::vector<std::byte> encode_clock_ask(SteadyClock::time_point now) {
  WireWriter writer;
  put_moment(writer, now);
  return writer.take();
}

std::vector<std::byte> encode(const ClockAnswer& frame) {
  WireWriter writer;
  put_moment(writer, frame.asked);
  put_moment(writer, frame.answered);
  return writer.take();
}

Result<TimelineSwitch> decode_timeline_switch(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  const uint8_t flags = reader.u8();
  if (!reader.finished() || flags > (kRecord | kMarkRounds)) return broken_piece(rank, "a timeline switch");
  return TimelineSwitch{(flags & kRecord) != 0, (flags & kMarkRounds) != 0};
}

Result<TimelinePiece> decode_timeline_piece(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  const uint8_t flags = reader.u8();
  TimelinePiece piece;
  piece.last = flags == kLast;
  const int64_t shift = reader.i64();
  // A shift may be negative: either machine may have started first.
  const bool possible = shift >= -kMostNanoseconds && shift <= kMostNanoseconds;
  if (!reader.ok() || flags > kLast || !possible) return broken_piece(rank, "a piece of timeline");
  piece.shift = std::chrono::nanoseconds(shift);
  // The records themselves are checked when they are read: only the scribe's thread has the time.
  const std::span<const std::byte> rest = reader.rest();
  piece.records.assign(rest.begin(), rest.end());
  return piece;
}

// A time is not compared with this machine's clock: the two have nothing in common.
Result<SteadyClock::time_point> decode_clock_ask(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  const SteadyClock::time_point time = get_moment(reader);
  if (!reader.finished()) return broken_piece(rank, "a question for the time");
  return time;
}

// Two times of two clocks: only their difference means anything, and `ClockShift` takes it.
Result<ClockAnswer> decode_clock_answer(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  ClockAnswer answer;
  answer.asked = get_moment(reader);
  answer.answered = get_moment(reader);
  if (!reader.finished()) return broken_piece(rank, "the time");
  return answer;
}

}  // namespace rueda::core
