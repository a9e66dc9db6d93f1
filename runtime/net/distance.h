#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/store_hint.h"

namespace rueda::core {

/// Batches from here on take so long that measuring the distance costs little beside them.
inline constexpr uint64_t kMeasuredBytes = 16 << 10;

/// A round trip this long or longer counts as far.
inline constexpr std::chrono::nanoseconds kFarRoundTrip{250};

/// Which of the two writes first; the lower rank is `kFirst`.
enum class PingPongSide { kFirst, kSecond };

/// `samples` times `trips` round trips, given up after `budget`.
struct PingPongPlan {
  int samples;
  int trips;
  std::chrono::nanoseconds budget;
};
/// For a lane between two steps of a batch: takes under 1 us if near, about 4 us if far, and never more than 10 us.
inline constexpr PingPongPlan kQuickPingPong{4, 2, std::chrono::microseconds(10)};
/// For benchmarks.
inline constexpr PingPongPlan kThoroughPingPong{64, 256, std::chrono::seconds(2)};

/// Measures the round trip of a cache line between two threads of one or two processes: each writes its own word and
/// spins on the other's. Both threads call it at about the same time with the same plan and the same `token`, which is
/// larger than any before on these words and below 2^44. Returns the fastest sample, so a preemption does not count;
/// empty if the peer did not answer within the budget. Spins and never sleeps.
std::optional<std::chrono::nanoseconds> line_round_trip(std::atomic<uint64_t>& own, const std::atomic<uint64_t>& peer,
                                                        uint64_t token, PingPongSide side, const PingPongPlan& plan);

/// What one lane knows about the distance of its local peers. Owned by its mesh; used by the holder of the lane's
/// token.
class Distances {
 public:
  explicit Distances(int size) : by_rank_(static_cast<size_t>(size), Distance::kUnknown) {}

  /// Returns true if the members of a batch measure at its start. The batch's first stamp decides, because every member
  /// knows it, whatever other process sets use the lane. Every batch at the beginning of an epoch measures, then one in
  /// 32; of `bytes` from 2 MiB on one in 16, and so on up to each batch from 32 MiB on, because a wrong distance costs
  /// long ones most. Batches below 1 MiB, to which a measurement may add its own time again, measure at the very
  /// beginning, one in eight during the rest of it, and then one in 128. Only batches of kMeasuredBytes and more should
  /// ask: measuring then costs at most a hundredth of their time, and a tenth at the beginning.
  static bool due(uint64_t first_stamp, uint64_t bytes);
  /// Returns the member that measures with member `index` of `count` in this batch (indices into the same ascending
  /// list), or -1 if it has no partner. A rank can measure with one peer at a time; over the batches every pair meets,
  /// as in a round-robin tournament.
  static int partner(int index, int count, uint64_t first_stamp);

  /// Records the outcome of a measurement with `rank`; an empty one changes nothing.
  void note(int rank, std::optional<std::chrono::nanoseconds> round_trip);
  Distance to(int rank) const { return by_rank_[static_cast<size_t>(rank)]; }
  /// Returns kFar if any of `ranks` is far, else kUnknown if any is unknown, else kNear. Leaves `own` out.
  Distance farthest(std::span<const int> ranks, int own) const;

 private:
  std::vector<Distance> by_rank_;
};

}  // namespace rueda::core
