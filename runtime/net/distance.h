#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rueda::core {

/// What a writer should assume of its readers' caches (design: "Distance"): `kNear` within one cache domain, a line's
/// round trip of about 100 ns; `kFar` about 480 ns.
enum class Distance { kUnknown, kNear, kFar };

/// Between the two.
inline constexpr std::chrono::nanoseconds kFarRoundTrip{250};

/// Who of a pair writes first: the lower rank.
enum class ProbeSide { kFirst, kSecond };

/// `samples` times `trips` round trips, given up after `budget`.
struct ProbePlan {
  int samples;
  int trips;
  std::chrono::nanoseconds budget;
};
/// For lanes between two steps of a batch: under a microsecond near, about 4 us far, never more than 10.
inline constexpr ProbePlan kQuickProbe{4, 2, std::chrono::microseconds(10)};
/// For benchmarks.
inline constexpr ProbePlan kThoroughProbe{64, 256, std::chrono::seconds(2)};

/// The round trip of a cache line between two threads, of one or of two processes: each writes its own word and spins
/// on the other's. Both call it at about the same time with the same `token`, larger than any before on these words and
/// under 2^44, and the same plan. The fastest sample counts, so that a preemption does not. Never sleeps; nothing if
/// the peer did not answer within the budget.
std::optional<std::chrono::nanoseconds> line_round_trip(std::atomic<uint64_t>& own, const std::atomic<uint64_t>& peer,
                                                        uint64_t token, ProbeSide side, const ProbePlan& plan);

/// What one lane knows about the distance of its local peers. Owned by its mesh; used by the holder of the lane's
/// token.
class Distances {
 public:
  explicit Distances(int size) : by_rank_(static_cast<size_t>(size), Distance::kUnknown) {}

  /// Whether the members of a batch probe at its start: decided by the batch's first stamp, which all of them know,
  /// whatever other sets use the lane. Always at the beginning of an epoch, then one batch in 32. Only batches that
  /// take 100 us or more should ask: then probing costs under 0.1 % of the time.
  static bool due(uint64_t first_stamp);
  /// Which member probes with member `index` of `count` in this batch (indices into the same ascending list), or -1. A
  /// rank can probe one peer at a time; over the batches every pair gets its turn, as in a round-robin tournament.
  static int partner(int index, int count, uint64_t first_stamp);

  /// The outcome of a probe with `rank`. Nothing: what was known stays.
  void note(int rank, std::optional<std::chrono::nanoseconds> round_trip);
  Distance to(int rank) const { return by_rank_[static_cast<size_t>(rank)]; }
  /// kFar if any peer is, else kUnknown if any peer is, else kNear. `own` is left out.
  Distance farthest(std::span<const int> ranks, int own) const;

 private:
  std::vector<Distance> by_rank_;
};

}  // namespace rueda::core
