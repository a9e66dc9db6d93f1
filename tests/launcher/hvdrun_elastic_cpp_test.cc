// An elastic job of workers in C++.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("through the C++ binding a job loses a worker, goes on, takes in another, and ends with the right numbers") {
  HvdrunProcess run({"-np", "4", "--min-np", "2", RUEDA_CPP_RESETTING_RANK, "1"});
  CHECK(run.wait() == 0);
  INFO(run.err());
  // Four ranks add 20 a step and three add 12. The last step before the death may have come to nothing on all.
  const std::vector<std::string> ends = {"total 320 after step 20", "total 312 after step 20"};
  for (const int worker : {0, 2, 3, 4}) {
    const auto lines = HvdrunProcess::lines(run.out(), "[" + std::to_string(worker) + "]<stdout>:");
    INFO(run.out());
    const size_t plans = worker == 4 ? 1 : 3;
    REQUIRE(lines.size() == plans + 1);
    const std::string old = std::to_string(worker == 0 ? 0 : worker - 1);
    if (worker != 4) {
      CHECK(lines[0] == "plan 1 rank " + std::to_string(worker) + " of 4: workers 0 1 2 3, state 0 0 0 0");
      CHECK(lines[1] == "plan 2 rank " + old + " of 3: workers 0 2 3, state 1 1 1");
    }
    CHECK_THAT(lines[plans - 1], StartsWith("plan 3 rank ") && Contains(" of 4: workers 0 "));
    CHECK(std::count(ends.begin(), ends.end(), lines.back()) == 1);
  }
  run.wait_for_all_to_end();
}
