#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// What ranks tell each other for a timeline.
///
///   kTimelineSwitch   rank 0 to a rank    flags u8: 1 record, 2 mark rounds
///   kTimeline         a rank to rank 0    flags u8: 1 the last piece; shift i64; records (diagnosis/timeline_record.h)
///   kClockAsk         a rank to rank 0    its time i64
///   kClockAnswer      rank 0 to a rank    the time that was asked with i64, rank 0's time i64
struct TimelineSwitch {
  bool record = false;
  bool mark_rounds = false;
};
struct TimelinePiece {
  bool last = false;
  bool full = false;                  ///< stays here: the piece leaves because it is long, not because it is due
  std::chrono::nanoseconds shift{0};  ///< takes the rank's clock to rank 0's
  std::vector<std::byte> records;
};
struct ClockAnswer {
  SteadyClock::time_point asked;
  SteadyClock::time_point answered;
};

std::vector<std::byte> encode(const TimelineSwitch& frame);
std::vector<std::byte> encode(const TimelinePiece& frame);
std::vector<std::byte> encode_clock_ask(SteadyClock::time_point now);
std::vector<std::byte> encode(const ClockAnswer& frame);
/// Each of these returns kPeerLost, naming `rank`, if the bytes break the protocol.
Result<TimelineSwitch> decode_timeline_switch(std::span<const std::byte> body, int rank);
Result<TimelinePiece> decode_timeline_piece(std::span<const std::byte> body, int rank);
Result<SteadyClock::time_point> decode_clock_ask(std::span<const std::byte> body, int rank);
Result<ClockAnswer> decode_clock_answer(std::span<const std::byte> body, int rank);

}  // namespace rueda::core
