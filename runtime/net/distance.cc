#include "runtime/net/distance.h"

#include <algorithm>

#include "runtime/base/deadline.h"

namespace rueda::core {
namespace {

using std::chrono::nanoseconds;

constexpr int kTokenShift = 20;  // below: the number of the trip
constexpr uint64_t kEarlyStamps = 4096;
constexpr uint64_t kProbeEvery = 32;

/// One side of a probe under way.
class Volley {
 public:
  Volley(std::atomic<uint64_t>& own, const std::atomic<uint64_t>& peer, uint64_t token, ProbeSide side,
         SteadyClock::time_point end)
      : own_(own), peer_(peer), value_(token << kTokenShift), side_(side), end_(end) {}

  /// One round trip. False: the peer did not answer in time, or has already given up and gone on.
  bool trip() {
    ++value_;
    if (side_ == ProbeSide::kFirst) own_.store(value_, std::memory_order_release);
    if (!peer_answers()) return false;
    if (side_ == ProbeSide::kSecond) own_.store(value_, std::memory_order_release);
    return true;
  }

 private:
  bool peer_answers() const {
    for (;;) {
      // No pause: it takes as long as the line. The clock takes a quarter of that, so it is read now and then.
      for (int i = 0; i < 32; ++i) {
        const uint64_t seen = peer_.load(std::memory_order_acquire);
        if (seen >= value_) return seen == value_;
      }
      if (SteadyClock::now() >= end_) return false;
    }
  }

  std::atomic<uint64_t>& own_;
  const std::atomic<uint64_t>& peer_;
  uint64_t value_;
  ProbeSide side_;
  SteadyClock::time_point end_;
};

uint64_t mixed(uint64_t stamp) {
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014): stamps that differ a little give unrelated bits.
  stamp = (stamp ^ (stamp >> 30)) * 0xbf58476d1ce4e5b9u;
  stamp = (stamp ^ (stamp >> 27)) * 0x94d049bb133111ebu;
  return stamp ^ (stamp >> 31);
}

}  // namespace

std::optional<nanoseconds> line_round_trip(std::atomic<uint64_t>& own, const std::atomic<uint64_t>& peer,
                                           uint64_t token, ProbeSide side, const ProbePlan& plan) {
  auto before = SteadyClock::now();
  Volley volley(own, peer, token, side, before + plan.budget);
  if (!volley.trip()) return std::nullopt;  // the first one also waits for the peer to come
  nanoseconds fastest = nanoseconds::max();
  before = SteadyClock::now();
  for (int sample = 0; sample < plan.samples; ++sample) {
    for (int trip = 0; trip < plan.trips; ++trip) {
      if (!volley.trip()) return std::nullopt;
    }
    const auto now = SteadyClock::now();
    fastest = std::min(fastest, std::chrono::duration_cast<nanoseconds>(now - before) / plan.trips);
    before = now;
  }
  return fastest;
}

bool Distances::due(uint64_t first_stamp) {
  return first_stamp < kEarlyStamps || mixed(first_stamp) % kProbeEvery == 0;
}

int Distances::partner(int index, int count, uint64_t first_stamp) {
  const auto n = static_cast<uint64_t>(count);
  // Divided first: the low bits have already decided whether the batch probes at all.
  const uint64_t round = mixed(first_stamp) / kProbeEvery % n;
  const auto other = static_cast<int>((round + n - static_cast<uint64_t>(index)) % n);
  // Of two ranks, one round in two would pair each with itself.
  if (count == 2) return 1 - index;
  return other == index ? -1 : other;
}

void Distances::note(int rank, std::optional<nanoseconds> round_trip) {
  if (!round_trip) return;
  by_rank_[static_cast<size_t>(rank)] = *round_trip < kFarRoundTrip ? Distance::kNear : Distance::kFar;
}

Distance Distances::farthest(std::span<const int> ranks, int own) const {
  Distance farthest = Distance::kNear;
  for (const int rank : ranks) {
    if (rank == own) continue;
    if (to(rank) == Distance::kFar) return Distance::kFar;
    if (to(rank) == Distance::kUnknown) farthest = Distance::kUnknown;
  }
  return farthest;
}

}  // namespace rueda::core
