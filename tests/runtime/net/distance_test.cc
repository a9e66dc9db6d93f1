#include "runtime/net/distance.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/net/mesh.h"

namespace rueda::core {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Patient, so that a slow machine only takes longer.
constexpr PingPongPlan kPatientPingPong{3, 2, seconds(60)};

TEST_CASE("two threads measure the same line and both learn a round trip") {
  alignas(128) std::atomic<uint64_t> first{0};
  alignas(128) std::atomic<uint64_t> second{0};
  for (uint64_t token = 1; token <= 3; ++token) {
    std::optional<nanoseconds> theirs;
    std::thread peer([&] { theirs = line_round_trip(second, first, token, PingPongSide::kSecond, kPatientPingPong); });
    const auto ours = line_round_trip(first, second, token, PingPongSide::kFirst, kPatientPingPong);
    peer.join();
    REQUIRE(ours.has_value());
    REQUIRE(theirs.has_value());
    CHECK(*ours > nanoseconds(0));
    CHECK(*theirs > nanoseconds(0));
  }
}

TEST_CASE("a ping-pong without a peer ends and says nothing") {
  std::atomic<uint64_t> own{0};
  const std::atomic<uint64_t> peer{0};
  CHECK_FALSE(line_round_trip(own, peer, 1, PingPongSide::kFirst, kQuickPingPong));
  CHECK_FALSE(line_round_trip(own, peer, 2, PingPongSide::kSecond, kQuickPingPong));
}

TEST_CASE("a peer that has gone on to a later ping-pong is not mistaken for a fast one") {
  std::atomic<uint64_t> own{0};
  const std::atomic<uint64_t> peer{uint64_t{9} << 20};
  CHECK_FALSE(line_round_trip(own, peer, 8, PingPongSide::kFirst, kPatientPingPong));
}

TEST_CASE("partners agree on each other, and over the batches every pair meets") {
  const int count = GENERATE(2, 3, 4, 7, 8, 33);
  std::set<std::pair<int, int>> met;
  for (uint64_t stamp = 1; stamp <= 3000; ++stamp) {
    for (int index = 0; index < count; ++index) {
      const int other = Distances::partner(index, count, stamp);
      if (other < 0) continue;
      REQUIRE(other < count);
      REQUIRE(other != index);
      REQUIRE(Distances::partner(other, count, stamp) == index);
      met.insert({std::min(index, other), std::max(index, other)});
    }
  }
  CHECK(met.size() == static_cast<size_t>(count * (count - 1) / 2));
}

TEST_CASE("after the start of an epoch one batch in 32 measures distances, and the more the longer they are") {
  CHECK(Distances::due(1, 1 << 20));
  for (const auto& [mebibytes, every] :
       std::vector<std::pair<uint64_t, int>>{{1, 32}, {2, 16}, {16, 2}, {32, 1}, {4096, 1}}) {
    int measuring = 0;
    for (uint64_t stamp = 1'000'000; stamp < 1'320'000; ++stamp) {
      measuring += Distances::due(stamp, mebibytes << 20) ? 1 : 0;
    }
    CHECK(measuring > 288'000 / every);
    CHECK(measuring <= 352'000 / every);
  }
}

TEST_CASE(
    "of short batches the first few measure distances, then one in 8, then one in 128, in which every pair meets") {
  CHECK(Distances::due(31, 64 << 10));
  int early = 0;
  for (uint64_t stamp = 32; stamp < 4096; ++stamp) early += Distances::due(stamp, 16 << 10) ? 1 : 0;
  CHECK(early > 450);
  CHECK(early < 570);
  int measuring = 0;
  std::set<std::pair<int, int>> met;
  const int count = GENERATE(2, 3, 4, 8);
  for (uint64_t stamp = 4096; stamp < 4096 + 128'000; ++stamp) {
    if (!Distances::due(stamp, (1 << 20) - 1)) continue;
    ++measuring;
    for (int index = 0; index < count; ++index) met.insert({index, Distances::partner(index, count, stamp)});
  }
  CHECK(measuring > 900);
  CHECK(measuring < 1100);
  std::erase_if(met, [](const auto& pair) { return pair.second < 0; });
  CHECK(met.size() == static_cast<size_t>(count * (count - 1)));
}

TEST_CASE("the farthest member decides, an unknown one before near ones, oneself never") {
  Distances distances(4);
  const std::vector<int> all{0, 1, 2, 3};
  const std::vector<int> two{0, 1};
  CHECK(distances.farthest(all, 0) == Distance::kUnknown);
  distances.note(1, nanoseconds(100));
  CHECK(distances.farthest(two, 0) == Distance::kNear);
  CHECK(distances.farthest(all, 0) == Distance::kUnknown);
  distances.note(2, nanoseconds(480));
  CHECK(distances.farthest(all, 0) == Distance::kFar);
  distances.note(2, std::nullopt);
  CHECK(distances.to(2) == Distance::kFar);
}

TEST_CASE("the meshes of two ranks learn their distance in their first batch") {
  SegmentLayout layout;
  layout.local_size = 2;
  layout.rings = 2;
  layout.slots = 1;
  layout.slot_bytes = 4096;
  std::vector<std::shared_ptr<Segment>> segments;
  for (int rank = 0; rank < 2; ++rank) segments.push_back(Segment::create(layout, 1, rank).value());
  Abort abort;
  Mesh low(0, 0, segments, nullptr, abort, WaitStyle::kYield);
  Mesh high(1, 0, segments, nullptr, abort, WaitStyle::kYield);
  const std::vector<int> members{0, 1};

  std::thread other([&] { high.refresh_distance(members, 1, 0, kPatientPingPong); });
  low.refresh_distance(members, 1, 0, kPatientPingPong);
  other.join();
  CHECK(low.distance() != Distance::kUnknown);
  CHECK(high.distance() != Distance::kUnknown);
  // Alone, a measurement gives up, and what is known stays.
  low.refresh_distance(members, 2, 0);
  CHECK(low.distance() != Distance::kUnknown);
}

}  // namespace
}  // namespace rueda::core
