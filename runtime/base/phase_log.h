#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// What the run of a batch consists of, as a timeline shows it.
enum class WorkPhase : uint8_t {
  kPack = 0,    ///< tensors to where peers read them, encoded
  kReduce = 1,  ///< the sums
  kWait = 2,    ///< for peers, or for bytes on the wire
  kUnpack = 3,  ///< results to the tensors, decoded
};
inline constexpr size_t kPhases = 4;
/// "pack" and so on.
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"pack", "reduce", "wait", "unpack"};

/// When each phase of one batch ran: chunks are on their way side by side, so a phase has many pieces. A value of
/// whoever runs the batch.
struct PhaseLog {
  struct Extent {
    SteadyClock::time_point first;  ///< the epoch: it never ran
    SteadyClock::time_point last;
    std::chrono::nanoseconds busy{0};
  };
  std::array<Extent, kPhases> phases{};
  bool inside = false;
};

/// Adds its own lifetime to a phase. Nothing where `log` is null, and inside another scope of the same log.
class PhaseScope {
 public:
  PhaseScope(PhaseLog* log, WorkPhase phase) : log_(log == nullptr || log->inside ? nullptr : log), phase_(phase) {
    if (log_ == nullptr) return;
    log_->inside = true;
    begin_ = SteadyClock::now();
  }
  ~PhaseScope() {
    if (log_ == nullptr) return;
    log_->inside = false;
    PhaseLog::Extent& extent = log_->phases[static_cast<size_t>(phase_)];
    extent.last = SteadyClock::now();
    extent.busy += extent.last - begin_;
    if (extent.first == SteadyClock::time_point{}) extent.first = begin_;
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseLog* log_;
  WorkPhase phase_;
  SteadyClock::time_point begin_;
};

}  // namespace rueda::core
