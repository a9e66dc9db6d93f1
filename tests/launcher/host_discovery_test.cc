// When the host discovery script runs again. What it does with a list, and with a script that fails, is in
// hvdrun_discovery_test.cc.

#include "launcher/host_discovery.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

using namespace rueda::core::launcher;
using std::chrono::milliseconds;

namespace {

using Rests = std::vector<milliseconds>;

/// The rests behind the first, the second and further failures in a row.
Rests behind_failures(milliseconds every, int count) {
  Rests rests;
  for (int failures = 1; failures <= count; ++failures) rests.push_back(rest_after_failures(every, failures));
  return rests;
}

}  // namespace

TEST_CASE("after a good run the script rests until one interval after its start, and never for less than 100 ms") {
  CHECK(rest_after_success(milliseconds(1000), milliseconds(0)) == milliseconds(1000));
  CHECK(rest_after_success(milliseconds(1000), milliseconds(300)) == milliseconds(700));
  CHECK(rest_after_success(milliseconds(1000), milliseconds(900)) == milliseconds(100));
  CHECK(rest_after_success(milliseconds(1000), milliseconds(950)) == milliseconds(100));
  CHECK(rest_after_success(milliseconds(1000), milliseconds(9000)) == milliseconds(100));
}

TEST_CASE("an interval below 100 ms is the least rest, too") {
  CHECK(rest_after_success(milliseconds(10), milliseconds(0)) == milliseconds(10));
  CHECK(rest_after_success(milliseconds(10), milliseconds(4)) == milliseconds(10));
  CHECK(rest_after_success(milliseconds(10), milliseconds(500)) == milliseconds(10));
}

TEST_CASE("while the job waits for hosts the interval is a quarter, or twice what a run takes, and never longer") {
  CHECK(interval_in_need(milliseconds(1000), milliseconds(0)) == milliseconds(250));
  CHECK(interval_in_need(milliseconds(1000), milliseconds(125)) == milliseconds(250));
  CHECK(interval_in_need(milliseconds(1000), milliseconds(300)) == milliseconds(600));
  CHECK(interval_in_need(milliseconds(1000), milliseconds(9000)) == milliseconds(1000));
}

TEST_CASE("after failures in a row the script rests for one interval, then twice as long each time, at most 30 s") {
  const auto in_seconds = [](const std::vector<int>& seconds) {
    Rests rests;
    for (const int each : seconds) rests.emplace_back(1000 * each);
    return rests;
  };
  CHECK(behind_failures(milliseconds(1000), 8) == in_seconds({1, 2, 4, 8, 16, 30, 30, 30}));
  CHECK(behind_failures(milliseconds(7000), 5) == in_seconds({7, 14, 28, 30, 30}));
  CHECK(rest_after_failures(milliseconds(1000), 1'000'000'000) == milliseconds(30'000));
}

TEST_CASE("a short interval is doubled five times, and an interval over 30 s is never shortened") {
  CHECK(behind_failures(milliseconds(10), 8) == Rests{milliseconds(10), milliseconds(20), milliseconds(40),
                                                      milliseconds(80), milliseconds(160), milliseconds(320),
                                                      milliseconds(320), milliseconds(320)});
  CHECK(behind_failures(milliseconds(60'000), 3) == Rests(3, milliseconds(60'000)));
  CHECK(behind_failures(milliseconds(1'000'000'000), 40) == Rests(40, milliseconds(1'000'000'000)));
}
