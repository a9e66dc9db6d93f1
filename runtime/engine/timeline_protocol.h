#pragma once
#include <chrono>
#include <optional>
#include <vector>

#include "runtime/engine/clock_shift.h"
#include "runtime/engine/timeline_frames.h"

namespace rueda::core {

/// What this rank still has to say to others for a timeline, and what it has heard: rank 0 switches the recording on
/// and off, the others ask for its time and send it their records. Pure: it is told the time and sends nothing itself;
/// the next turn of the baton's holder takes what is due. `Timeline` owns it and guards it with its mutex.
///
///     rank 0    ── switch on ─▶   a rank    ── what is your time? (8 times, then once a second) ─▶   rank 0
///                                           ── a piece of records (64 KiB, or a second old) ──────▶
///               ── switch off ─▶            ── the last piece ────────────────────────────────────▶
class TimelineProtocol {
 public:
  /// `shares_clock`: rank 0 runs on this host, so its clock need not be asked for.
  TimelineProtocol(int size, bool shares_clock);

  /// Rank 0: all ranks are to hear this.
  void want_switch(const TimelineSwitch& change) { switch_ = change; }
  /// A recording begins: asks for rank 0's time often enough to know it well.
  void begin_asking();
  void want_time() { ask_wanted_ = !shares_clock_; }
  void want_piece() { piece_wanted_ = true; }
  void want_last_piece() { last_wanted_ = piece_wanted_ = true; }
  bool piece_wanted() const { return piece_wanted_; }
  bool last_wanted() const { return last_wanted_; }
  /// Whether a turn has something to send.
  bool due() const { return switch_.has_value() || ask_wanted_ || piece_wanted_; }
  bool time_wanted() const { return ask_wanted_; }

  std::optional<TimelineSwitch> take_switch();
  bool take_time_wanted();
  /// A piece without records to send now; none if none is wanted, or if it waits for rank 0's time.
  std::optional<TimelinePiece> take_piece();
  void time_told(const ClockAnswer& answer, SteadyClock::time_point now);
  /// Takes this rank's clock to rank 0's; zero while that is unknown, or if they share one.
  std::chrono::nanoseconds shift() const { return clock_.shift().value_or(std::chrono::nanoseconds(0)); }

  /// Rank 0: a recording begins, and the last pieces of all ranks that have not said goodbye are awaited.
  void await_all() { ended_ = left_; }
  /// Rank 0: the last piece of `rank` has come.
  void ended(int rank) { ended_[static_cast<size_t>(rank)] = 1; }
  /// `rank` has said goodbye: nothing more comes from it.
  void left(int rank) { left_[static_cast<size_t>(rank)] = ended_[static_cast<size_t>(rank)] = 1; }
  /// Rank 0: whether nothing more is to come from any other rank.
  bool all_ended() const;

 private:
  const bool shares_clock_;
  ClockShift clock_;
  std::optional<TimelineSwitch> switch_;
  bool ask_wanted_ = false;
  int asks_left_ = 0;
  bool piece_wanted_ = false;
  bool last_wanted_ = false;  ///< the next piece is the last
  std::vector<char> ended_;   ///< by rank
  std::vector<char> left_;
};

}  // namespace rueda::core
