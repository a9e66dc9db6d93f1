// An elastic job of workers in C++.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/launcher/host_list.h"
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

TEST_CASE("through the C++ binding a worker that is removed gets Removed from its reset, and ends well") {
  const HostList list("localhost:2\n127.0.0.1:1\n");
  // Only the notice makes hvdrun look again: else a slow machine may find the job at its end before the notice comes.
  HvdrunProcess run({"-np", "3", "--min-np", "1", "--host-discovery-script", list.script(), "--discovery-interval",
                     "3600", RUEDA_CPP_LEAVING_WORKER});
  for (const char* worker : {"[0]", "[1]", "[2]"}) run.read_until(std::string(worker) + "<stdout>:starts, sum 3\n");
  list.replace("localhost:2\n");
  HvdrunProcess told({"--signal-hosts", std::to_string(run.pid())});
  const int told_code = told.wait();
  CHECK(run.wait() == 0);
  INFO(run.out() + run.err() + told.err());
  CHECK(told_code == 0);
  for (const int worker : {0, 1}) {
    const std::string number = std::to_string(worker);
    const auto lines = HvdrunProcess::lines(run.out(), "[" + number + "]<stdout>:");
    CHECK(lines == std::vector<std::string>{"starts, sum 3", "goes on as rank " + number + ", sum 2"});
  }
  const auto removed = HvdrunProcess::lines(run.out(), "[2]<stdout>:");
  REQUIRE(removed.size() == 4);
  CHECK_THAT(removed[1], StartsWith("REMOVED: ") && Contains("worker 2 is removed: the job goes on without it"));
  CHECK(removed[2] == "a second reset throws Removed REMOVED");
  CHECK(removed[3] == "a sum throws SessionOver");
  CHECK(run.err().find("failed") == std::string::npos);
  run.wait_for_all_to_end();
}
