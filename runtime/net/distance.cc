// Measures how far two cores are apart by passing a cache line to and fro, and remembers it for each peer.
//
//   first side    own = 1 ──▶        own = 2 ──▶        ...
//   second side          ◀── own = 1        ◀── own = 2         each value is token << 20 | number of the trip
//
// Values only grow, so a side can tell three cases apart: the peer has not answered yet (smaller), has answered
// (equal), or has given up and gone on to a later measurement (larger).
#include "runtime/net/distance.h"

#include <algorithm>
#include <bit>

#include "runtime/base/deadline.h"

namespace rueda::core {
namespace {

using std::chrono::nanoseconds;

constexpr int kTokenShift = 20;  // the lower bits count the trips
// Nothing is known when an epoch begins, so every batch of its first stamps measures.
constexpr uint64_t kEarlyStamps = 4096;
constexpr uint64_t kMeasureEvery = 32;
// Of batches below kLong all measure that have one of the first kFirstStamps, and fewer after these.
constexpr uint64_t kLong = 1 << 20;
constexpr uint64_t kFirstStamps = 32;
constexpr uint64_t kMeasureEveryEarlyShort = 8;
constexpr uint64_t kMeasureEveryShort = 128;

/// One side of a measurement under way.
class PingPong {
 public:
  PingPong(std::atomic<uint64_t>& own, const std::atomic<uint64_t>& peer, uint64_t token, PingPongSide side,
           SteadyClock::time_point end)
      : own_(own), peer_(peer), value_(token << kTokenShift), side_(side), end_(end) {}

  /// One round trip. Returns false if the peer did not answer in time, or has given up and gone on.
  bool trip() {
    ++value_;
    if (side_ == PingPongSide::kFirst) own_.store(value_, std::memory_order_release);
    if (!peer_answers()) return false;
    if (side_ == PingPongSide::kSecond) own_.store(value_, std::memory_order_release);
    return true;
  }

 private:
  bool peer_answers() const {
    for (;;) {
      // A pause would take as long as the line itself. Reading the clock takes a quarter of a near round trip, so
      // only every 32nd look does.
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
  PingPongSide side_;
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
                                           uint64_t token, PingPongSide side, const PingPongPlan& plan) {
  auto before = SteadyClock::now();
  PingPong ping_pong(own, peer, token, side, before + plan.budget);
  // The first trip also waits for the peer to begin, so it does not count.
  if (!ping_pong.trip()) return std::nullopt;
  nanoseconds fastest = nanoseconds::max();
  before = SteadyClock::now();
  for (int sample = 0; sample < plan.samples; ++sample) {
    for (int trip = 0; trip < plan.trips; ++trip) {
      if (!ping_pong.trip()) return std::nullopt;
    }
    const auto now = SteadyClock::now();
    fastest = std::min(fastest, std::chrono::duration_cast<nanoseconds>(now - before) / plan.trips);
    before = now;
  }
  return fastest;
}

bool Distances::due(uint64_t first_stamp, uint64_t bytes) {
  if (bytes < kLong) {
    const uint64_t short_every = first_stamp < kEarlyStamps ? kMeasureEveryEarlyShort : kMeasureEveryShort;
    return first_stamp < kFirstStamps || mixed(first_stamp) % short_every == 0;
  }
  const uint64_t every = std::max<uint64_t>(1, kMeasureEvery >> std::min<uint64_t>(std::bit_width(bytes >> 21), 5));
  return first_stamp < kEarlyStamps || mixed(first_stamp) % every == 0;
}

int Distances::partner(int index, int count, uint64_t first_stamp) {
  const auto n = static_cast<uint64_t>(count);
  // Members i and j meet in the round i + j = round (mod n): each has at most one partner, and over n rounds every pair
  // meets. Division comes first because the low bits have already decided whether the batch measures at all.
  const uint64_t round = mixed(first_stamp) / kMeasureEveryShort % n;
  const auto other = static_cast<int>((round + n - static_cast<uint64_t>(index)) % n);
  // With two members, the even rounds would pair each with itself.
  if (count == 2) return 1 - index;
  return other == index ? -1 : other;
}

void Distances::note(int rank, std::optional<nanoseconds> round_trip) {
  if (!round_trip) return;  // a peer that was late says nothing about the cores
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
