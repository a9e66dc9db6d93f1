#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/diagnosis/stall.h"

namespace rueda::core {

/// A rank's report that a batch has run there for long.
///
///   kLate     a rank to rank 0    set id, number, age in microseconds, what, ranks
struct LateBatch {
  SetId set = kGlobalSet;  ///< the id that rank 0 gave
  uint64_t number = 0;     ///< in the set
  std::chrono::nanoseconds age{0};
  std::string what;        ///< `allreduce "w" of process set "trio" (ranks 0-2), by shm_one_shot,`
  std::vector<int> ranks;  ///< the set's, ascending
};
std::vector<std::byte> encode_late(const LateBatch& batch);
/// Returns kPeerLost, naming `rank`, if the bytes break the protocol.
Result<LateBatch> decode_late(std::span<const std::byte> body, int rank, int size);

/// Decides when a rank reports what runs: after the warning time, then at doubling ages. Pure: it is told the time. The
/// engine owns it; the baton's holder uses it.
class LateWatch {
 public:
  explicit LateWatch(std::chrono::nanoseconds warning) : warning_(warning) {}
  /// `record` names what has run longest, and `age` how long; another record begins anew.
  bool due(uint64_t record, std::chrono::nanoseconds age);

 private:
  const std::chrono::nanoseconds warning_;
  uint64_t record_ = 0;
  std::chrono::nanoseconds next_{0};
};

/// What ranks have reported to rank 0. A batch that no rank reports again in time has ended. Pure: it is told the time.
/// The engine owns it; the baton's holder uses it.
class LateBatches {
 public:
  void note(const LateBatch& batch, SteadyClock::time_point now);
  std::vector<Stalled> stalled(SteadyClock::time_point now);

 private:
  struct Noted {
    LateBatch batch;  ///< of the rank that has run it longest
    SteadyClock::time_point told;
  };
  std::map<std::pair<SetId, uint64_t>, Noted> batches_;
};

}  // namespace rueda::core
