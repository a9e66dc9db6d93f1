// Ranks of one host that do not run: what single looks say about them, on a clock of the test, and the heart that the
// looks are for.
#include "runtime/engine/stopped_peers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/engine/heart.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using namespace core;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Finding = StoppedPeers::Finding;

/// Looks at rank 1, each some time after the one before.
struct Looks {
  StoppedPeers peers{{.whole = seconds(5), .first_beat = seconds(30)}};
  SteadyClock::time_point now = SteadyClock::now();
  Finding after(std::chrono::nanoseconds time, std::optional<char> state, uint64_t beats) {
    now += time;
    return peers.seen(1, {state, beats}, now);
  }
  /// The time from the first of many equal looks until the rank is judged; at most a minute.
  std::chrono::nanoseconds until_found(Finding wanted, std::optional<char> state, uint64_t beats) {
    CHECK(after(seconds(1), state, beats) == Finding::kNone);
    const auto first = now;
    while (now - first < seconds(60)) {
      const Finding found = after(milliseconds(200), state, beats);
      if (found == Finding::kNone) continue;
      CHECK(found == wanted);
      break;
    }
    return now - first;
  }
};

}  // namespace

TEST_CASE("a rank that is seen stopped is dead after three fifths of the limit, and told once") {
  Looks looks;
  CHECK(looks.until_found(Finding::kStopped, 'T', 7) == seconds(3));
  CHECK(looks.after(seconds(1), 'T', 7) == Finding::kNone);
  CHECK_FALSE(looks.peers.watching());
}

TEST_CASE("a rank whose state cannot be known is dead after four fifths of the limit without a heartbeat") {
  CHECK(Looks().until_found(Finding::kSilent, std::nullopt, 7) == seconds(4));
}

TEST_CASE("a leader through which this rank reaches the others has the whole limit") {
  Looks looks{.peers = StoppedPeers({.whole = seconds(5), .first_beat = seconds(30), .leader = 1})};
  CHECK(looks.until_found(Finding::kStopped, 'T', 7) == seconds(5));
  Looks unseen{.peers = StoppedPeers({.whole = seconds(5), .first_beat = seconds(30), .leader = 1})};
  CHECK(unseen.until_found(Finding::kSilent, std::nullopt, 7) == seconds(5));
}

TEST_CASE("a frozen rank is found in every state that the kernel shows for it") {
  for (const char state : {'D', 'S', 'R'}) CHECK(Looks().until_found(Finding::kSilent, state, 7) == seconds(4));
}

TEST_CASE("a rank with a heartbeat is alive, and one that a debugger holds is not judged") {
  Looks looks;
  for (uint64_t beat = 1; beat < 100; ++beat) CHECK(looks.after(seconds(1), std::nullopt, beat) == Finding::kNone);
  CHECK_FALSE(looks.peers.watching());
  CHECK(looks.until_found(Finding::kNone, 't', 100) >= seconds(60));
}

TEST_CASE("a heart at rest says nothing, and one that has not beaten yet has the time of init") {
  CHECK(Looks().until_found(Finding::kNone, 'S', Heart::kAtRest) >= seconds(60));
  Looks looks;
  CHECK(looks.until_found(Finding::kSilent, 'S', 0) == seconds(34));
}

TEST_CASE("a stop ends with the first look that does not show it") {
  Looks looks;
  CHECK(looks.after(seconds(1), 'T', 7) == Finding::kNone);
  for (int i = 0; i < 14; ++i) CHECK(looks.after(milliseconds(200), 'T', 7) == Finding::kNone);
  CHECK(looks.after(milliseconds(200), 'S', 8) == Finding::kNone);
  CHECK(looks.until_found(Finding::kStopped, 'T', 8) == seconds(3));
}

TEST_CASE("looks come more often once a rank seems not to run") {
  Looks looks;
  static_cast<void>(looks.after(seconds(1), std::nullopt, 7));
  CHECK_FALSE(looks.peers.watching());
  static_cast<void>(looks.after(milliseconds(400), std::nullopt, 7));  // between two beats
  CHECK_FALSE(looks.peers.watching());
  static_cast<void>(looks.after(milliseconds(600), std::nullopt, 7));
  CHECK(looks.peers.watching());
  static_cast<void>(looks.after(milliseconds(200), 'T', 8));
  CHECK(looks.peers.watching());
  static_cast<void>(looks.after(milliseconds(200), 'S', 9));
  CHECK_FALSE(looks.peers.watching());
}

TEST_CASE("a pause of the whole machine counts as one look, whatever state it leaves") {
  for (const char state : {'T', 'D'}) {
    Looks looks;
    CHECK(looks.after(seconds(1), state, 7) == Finding::kNone);
    CHECK(looks.after(milliseconds(200), state, 7) == Finding::kNone);
    CHECK(looks.after(std::chrono::hours(8), state, 7) == Finding::kNone);
    CHECK(looks.after(milliseconds(200), 'S', 8) == Finding::kNone);
  }
}

TEST_CASE("on a machine that is slow for all, an observer that is late itself needs as many looks") {
  Looks looks;
  static_cast<void>(looks.after(seconds(1), 'S', 7));
  for (int i = 0; i < 3; ++i) CHECK(looks.after(seconds(20), 'S', 7) == Finding::kNone);
  CHECK(looks.after(seconds(20), 'S', 7) == Finding::kSilent);
}

TEST_CASE("without a limit no rank is judged") {
  StoppedPeers never({.whole = seconds(0), .first_beat = seconds(30)});
  const auto start = SteadyClock::now();
  for (int second = 0; second < 1000; ++second)
    CHECK(never.seen(1, {'T', 7}, start + seconds(second)) == Finding::kNone);
}

TEST_CASE("a heart beats at once and then by itself, until it is put at rest") {
  std::atomic<uint64_t> beats{0};
  Heart heart(beats, seconds(1));
  heart.start("rueda-heart", 0);
  CHECK(beats.load() >= 1);
  const uint64_t seen = beats.load();
  for (const Deadline deadline = patience(); beats.load() < seen + 3;) {
    REQUIRE_FALSE(deadline.passed());
    std::this_thread::yield();
  }
  heart.stop();
  CHECK(beats.load() == Heart::kAtRest);
  heart.stop();
}

}  // namespace rueda::test
