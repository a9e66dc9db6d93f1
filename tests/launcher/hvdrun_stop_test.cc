// Ranks that are stopped under hvdrun: how long hvdrun waits for them, and what it says.

#include <signal.h>

#include <catch2/catch.hpp>

#include "launcher/stopped_ranks.h"
#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

TEST_CASE("a stopped rank is overdue after the limit, a job that is stopped as a whole is not") {
  EventLoop loop;
  std::vector<int> overdue;
  int ticks = 0;
  StoppedRanks* stops = nullptr;
  StoppedRanks ranks(loop, milliseconds(200),
                     {[&] {
                        if (++ticks == 30) stops->changed(0, 0);  // three limits; now a rank runs
                        return std::vector<int>{0, 1, 2};
                      },
                      [&](int rank, const std::string& how) {
                        CHECK(ticks >= 39);
                        CHECK_THAT(how, Contains("it has been stopped by signal 19") && Contains("for 0.12 s") &&
                                            Contains("RUEDA_PEER_TIMEOUT_SECONDS (0.2 s"));
                        overdue.push_back(rank);
                        loop.stop();
                      }});
  stops = &ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.changed(rank, SIGSTOP);
  CHECK(ranks.all_of({0, 1, 2}));
  CHECK_FALSE(ranks.all_of({}));
  loop.run();
  CHECK(overdue == std::vector<int>{1, 2});
  CHECK_FALSE(ranks.all_of({0, 1}));
}

TEST_CASE("a rank that goes on in time, or has ended, is never overdue") {
  EventLoop loop;
  int ticks = 0;
  StoppedRanks* stops = nullptr;
  StoppedRanks ranks(loop, milliseconds(200),
                     {[&] {
                        if (++ticks == 9) stops->changed(1, 0);
                        if (ticks == 30) loop.stop();
                        return std::vector<int>{0, 1};
                      },
                      [&](int rank, const std::string&) { CHECK(rank == 0); }});
  stops = &ranks;
  for (const int rank : {0, 1, 2}) ranks.changed(rank, SIGSTOP);  // rank 2 has ended
  loop.run();
}

TEST_CASE("hvdrun finds a stopped rank by its agent, tells the others, and names it last") {
  HvdrunProcess run({"-np", "3", "--peer-timeout-seconds", "2", "sh", "-c",
                     "if [ $RUEDA_RANK = 1 ]; then exec $0 begin kill=19; else exec $0 begin death exit=7; fi",
                     RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 1);
  const std::string how =
      "it has been stopped by signal 19 (Stopped (signal)) for 1.2 s; if that was meant, raise "
      "RUEDA_PEER_TIMEOUT_SECONDS (2 s; 0: never dead)";
  CHECK_THAT(run.last_error(), Contains("the first to fail: rank 1 (host localhost, pid ") && Contains(how));
  for (const std::string rank : {"0", "2"}) {
    const auto lines = HvdrunProcess::lines(run.out(), "[" + rank + "]<stdout>:");
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Contains("rank 1 (host localhost, pid ") && Contains(how));
  }
}
