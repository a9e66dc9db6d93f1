#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "runtime/base/deadline.h"
#include "runtime/base/ticks.h"

namespace rueda::core {

/// The parts of a batch's run, as a timeline shows them.
enum class WorkPhase : uint8_t {
  kPack = 0,      ///< encodes tensors into memory that peers read
  kReduce = 1,    ///< adds up
  kWait = 2,      ///< waits for peers of the host, or for memory that they still read
  kTransfer = 3,  ///< sends and receives over connections, waits included
  kUnpack = 4,    ///< decodes results into the tensors
};
inline constexpr size_t kPhases = 5;
/// "pack" and so on.
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"pack", "reduce", "wait", "transfer", "unpack"};

/// When a phase of one batch ran. Chunks of a batch overlap, so a phase has many pieces.
struct PhaseExtent {
  SteadyClock::time_point first;  ///< the clock's epoch if it never ran
  SteadyClock::time_point last;
  std::chrono::nanoseconds busy{0};  ///< without the gaps between its pieces
};
using PhaseExtents = std::array<PhaseExtent, kPhases>;

/// Notes the phases of one batch while it runs, in ticks. Used by the thread that runs the batch.
class PhaseLog {
 public:
  /// The batch begins.
  void start();
  /// Returns the phases, once the batch has ended. Ticks become times by the readings of both at `start` and now.
  PhaseExtents extents() const;

 private:
  friend class PhaseScope;
  struct Piece {
    uint64_t first = 0;  ///< 0: it never ran
    uint64_t last = 0;
    uint64_t busy = 0;
  };
  uint64_t started_ticks_ = 0;
  SteadyClock::time_point started_;
  std::array<Piece, kPhases> pieces_{};
  bool inside_ = false;
};

/// Adds its own lifetime to a phase. Does nothing if `log` is null, or inside another scope of the same log.
class PhaseScope {
 public:
  PhaseScope(PhaseLog* log, WorkPhase phase) : log_(log == nullptr || log->inside_ ? nullptr : log), phase_(phase) {
    if (log_ == nullptr) return;
    log_->inside_ = true;
    begin_ = ticks();
  }
  ~PhaseScope() {
    if (log_ == nullptr) return;
    log_->inside_ = false;
    PhaseLog::Piece& piece = log_->pieces_[static_cast<size_t>(phase_)];
    piece.last = ticks();
    piece.busy += piece.last - begin_;
    if (piece.first == 0) piece.first = begin_;
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseLog* log_;
  WorkPhase phase_;
  uint64_t begin_ = 0;
};

}  // namespace rueda::core
