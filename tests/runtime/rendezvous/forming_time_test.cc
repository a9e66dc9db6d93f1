// How long members of a plan wait for each other.

#include "runtime/rendezvous/forming_time.h"

#include <catch2/catch.hpp>

using rueda::core::forming_time;
using std::chrono::seconds;

TEST_CASE("members of a plan wait for longer than hvdrun does, and without a limit if init has none") {
  CHECK(forming_time(seconds(30), seconds(30)) == seconds(60));
  CHECK(forming_time(seconds(30), seconds(1)) == seconds(60));
  CHECK(forming_time(seconds(30), seconds(300)) == seconds(330));
  CHECK(forming_time(seconds(0), seconds(300)) == seconds(0));
  CHECK(forming_time(seconds(30), std::chrono::duration<double>(1e300)) == seconds(1000000000));
}
