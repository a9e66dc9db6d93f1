#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// What ranks wait for: an operation, a set that is to be made (which may wait for ever where nobody uses it), the end
/// of a join, or that of a batch which runs.
enum class StallKind : uint8_t { kOperation, kSet, kJoin, kRunning };

/// What some members of a set have submitted and others have not; or a batch, which all members have.
struct Stalled {
  uint32_t set = 0;
  std::string what = {};       ///< `allreduce "w1"`, or `allreduce #4`
  std::vector<int> have = {};  ///< ranks, ascending
  std::vector<int> lack = {};  ///< ranks, ascending
  std::chrono::nanoseconds age{0};
  StallKind kind = StallKind::kOperation;
  uint64_t batch = 0;   ///< number of what runs
  std::string of = {};  ///< ` of process set "trio" (ranks 0-2)`; empty: of the set of all ranks
};

/// What is said about all of one kind that waits for the same ranks.
struct StallReport {
  StallKind kind = StallKind::kOperation;
  uint32_t set = 0;
  uint64_t batch = 0;
  std::vector<std::string> what;  ///< the oldest first, at most kMostNames
  size_t more = 0;                ///< beyond these
  std::string of;                 ///< as in Stalled
  std::vector<int> have;          ///< of the oldest
  std::vector<int> lack;
  std::chrono::nanoseconds age{0};  ///< of the oldest
  bool over = false;                ///< it ends the job
  /// Ranks that lack this wait themselves for ranks that have it: they submitted something else.
  bool divergence = false;
  std::vector<int> elsewhere;        ///< these, ascending
  std::vector<std::string> instead;  ///< what they have submitted
};

struct StallVerdict {
  std::vector<StallReport> reports;  ///< the oldest first, at most kMostReports; empty: nothing new to say
  size_t more = 0;                   ///< reports beyond these
  bool shut_down = false;            ///< the limit of a report has passed
};

/// Decides when to speak of a stall: once an operation has waited for the warning time, then at doubling intervals, one
/// report for all that wait for the same ranks. Pure: ages are handed in. Owned by rank 0's engine.
class StallJudge {
 public:
  static constexpr size_t kMostNames = 5;
  static constexpr size_t kMostReports = 8;

  /// `shutdown` zero: never.
  StallJudge(std::chrono::nanoseconds warning, std::chrono::nanoseconds shutdown)
      : warning_(std::max<std::chrono::nanoseconds>(warning, std::chrono::milliseconds(1))), shutdown_(shutdown) {}
  StallVerdict look(std::vector<Stalled> stalled);

 private:
  /// What, in which set, which batch, and for whom.
  using Waiting = std::tuple<StallKind, uint32_t, uint64_t, std::vector<int>>;
  const std::chrono::nanoseconds warning_;
  const std::chrono::nanoseconds shutdown_;
  std::map<Waiting, std::chrono::nanoseconds> next_;  ///< the age at which a stall is spoken of again
};

/// `stall for 31.0 s: "w1" and 2 more: submitted by ...`. `hosts` by rank.
std::string describe(const StallReport& report, const std::vector<std::string>& hosts);

}  // namespace rueda::core
