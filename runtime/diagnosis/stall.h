#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

/// What ranks wait for: an operation, the making of a set (which may wait for ever if no rank uses it), the end of a
/// join, or the end of a running batch.
enum class StallKind : uint8_t { kOperation, kSet, kJoin, kRunning };

/// Something that some members of a set have submitted and others have not; or a running batch, which all have.
struct Stalled {
  uint32_t set = 0;
  std::string what = {};       ///< `allreduce "w1"`, or `allreduce #4`
  std::vector<int> have = {};  ///< ranks, ascending
  std::vector<int> lack = {};  ///< ranks, ascending
  std::chrono::nanoseconds age{0};
  StallKind kind = StallKind::kOperation;
  uint64_t batch = 0;   ///< number of the running batch
  std::string of = {};  ///< ` of process set "trio" (ranks 0-2)`; empty for the set of all ranks
};

/// One report about everything of one kind that waits for the same ranks.
struct StallReport {
  StallKind kind = StallKind::kOperation;
  uint32_t set = 0;
  uint64_t batch = 0;
  std::vector<std::string> what;  ///< the oldest first, at most kMostNames
  size_t more = 0;                ///< number of further ones
  std::string of;                 ///< as in Stalled
  std::vector<int> have;          ///< as of the oldest
  std::vector<int> lack;
  std::chrono::nanoseconds age{0};  ///< of the oldest
  bool over = false;                ///< it has waited too long and ends the job
  /// Ranks that have not submitted this wait themselves for ranks that have: they submitted something else.
  bool divergence = false;
  std::vector<int> elsewhere;        ///< those ranks, ascending
  std::vector<std::string> instead;  ///< what they have submitted
};

struct StallVerdict {
  std::vector<StallReport> reports;  ///< the oldest first, at most kMostReports; empty: nothing new to say
  size_t more = 0;                   ///< number of further reports
  bool shut_down = false;            ///< the limit of a report has passed
};

/// Decides when to report a stall: when an operation has waited for the warning time, then at doubling intervals, in
/// one report for everything that waits for the same ranks. Pure: ages are handed in. Owned by rank 0's engine.
class StallJudge {
 public:
  static constexpr size_t kMostNames = 5;
  static constexpr size_t kMostReports = 8;

  /// A stall never ends the job if `shutdown` is zero.
  StallJudge(std::chrono::nanoseconds warning, std::chrono::nanoseconds shutdown)
      : warning_(std::max<std::chrono::nanoseconds>(warning, std::chrono::milliseconds(1))), shutdown_(shutdown) {}
  /// Takes everything that waits now, and returns what is to be reported.
  StallVerdict look(std::vector<Stalled> stalled);

 private:
  /// Kind, set, batch, and the missing ranks.
  using Waiting = std::tuple<StallKind, uint32_t, uint64_t, std::vector<int>>;
  const std::chrono::nanoseconds warning_;
  const std::chrono::nanoseconds shutdown_;
  std::map<Waiting, std::chrono::nanoseconds> next_;  ///< the age at which a stall is reported again
};

/// Returns `stall for 31.0 s: "w1" and 2 more: submitted by ...`; in an elastic job `stall for 31.0 s in plan 2: ...`.
std::string describe(const StallReport& report, const RankNames& names);

}  // namespace rueda::core
