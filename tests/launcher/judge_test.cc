// The judge, fed with every order of exits, goodbyes and signals that leads to another verdict. No process runs.

#include "launcher/judge.h"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <vector>

using namespace rueda::core::launcher;

namespace {

// Wait statuses as waitpid returns them.
constexpr int signal(int number) { return number; }

}  // namespace

TEST_CASE("a report that a rank is dead counts while that rank runs and no rank has failed") {
  Judge judge(3);
  judge.reported(7, "of no job");
  CHECK_FALSE(judge.first_failure().has_value());
  judge.reported(1, "it has been stopped");
  REQUIRE(judge.first_failure().has_value());
  CHECK(judge.first_failure()->rank == 1);
  CHECK(judge.first_failure()->cause == "it has been stopped");
  CHECK(judge.first_failure()->exit_code == 1);
  Judge late(2);
  late.exited(1, 0);
  late.reported(1, "it has been stopped");
  CHECK_FALSE(late.first_failure().has_value());
}

TEST_CASE("a rank that is stopped for too long has failed if it has begun init, else no rank waits for it") {
  Judge judge(2);
  judge.stopped(1, "it has been stopped");
  CHECK_FALSE(judge.first_failure().has_value());
  judge.began(1);
  judge.stopped(1, "it has been stopped");
  REQUIRE(judge.first_failure().has_value());
  CHECK(judge.first_failure()->rank == 1);
}

TEST_CASE("the first failure stays the first, whatever fails because of it") {
  Judge judge(3);
  CHECK_FALSE(judge.first_failure());
  judge.exited(2, signal(9));
  judge.exited(0, W_EXITCODE(1, 0));
  judge.exited(1, signal(15));
  REQUIRE(judge.first_failure());
  CHECK(judge.first_failure()->rank == 2);
  CHECK(judge.first_failure()->cause == "killed by signal 9 (Killed)");
  CHECK(judge.first_failure()->exit_code == 137);
}

TEST_CASE("after a signal to hvdrun the exit code is the signal's, unless the rank exits with its own code") {
  const auto failure = [](int wait_status) {
    Judge judge(2);
    judge.ended_by_user(15);
    judge.ended_by_user(2);
    judge.exited(0, wait_status);
    return *judge.first_failure();
  };
  for (const int deadly : {signal(9), signal(15), signal(2)}) {
    CHECK(failure(deadly).exit_code == 143);
    CHECK(failure(deadly).user_signal == 15);
  }
  CHECK(failure(signal(9)).cause == "killed by signal 9 (Killed)");
  CHECK(failure(signal(11)).exit_code == 139);
  CHECK(failure(W_EXITCODE(5, 0)).exit_code == 5);
  Judge before(2);
  before.exited(1, signal(9));
  before.ended_by_user(15);
  CHECK(before.first_failure()->exit_code == 137);
  CHECK(before.first_failure()->user_signal == 0);
}

TEST_CASE("every exit code other than 0 is a failure with that code") {
  Judge judge(2);
  judge.exited(1, W_EXITCODE(3, 0));
  REQUIRE(judge.first_failure());
  CHECK(judge.first_failure()->cause == "exited with code 3");
  CHECK(judge.first_failure()->exit_code == 3);
}

TEST_CASE("a job succeeds if all ranks exit with 0 after their goodbye") {
  Judge judge(2);
  for (const int rank : {0, 1}) judge.began(rank);
  for (const int rank : {0, 1}) {
    judge.said_goodbye(rank);
    judge.exited(rank, W_EXITCODE(0, 0));
  }
  CHECK_FALSE(judge.first_failure());
}

TEST_CASE("exit code 0 is a success if no rank begins init") {
  Judge judge(2);
  judge.exited(0, W_EXITCODE(0, 0));
  judge.exited(1, W_EXITCODE(0, 0));
  CHECK_FALSE(judge.first_failure());
}

TEST_CASE("code 0 without a goodbye is a failure once that rank or another has begun init") {
  SECTION("the rank itself") {
    Judge judge(2);
    judge.began(0);
    judge.exited(0, W_EXITCODE(0, 0));
    REQUIRE(judge.first_failure());
    CHECK(judge.first_failure()->rank == 0);
    CHECK(judge.first_failure()->cause == "exited with code 0 without shutdown");
    CHECK(judge.first_failure()->exit_code == 1);
  }
  SECTION("another rank, before that exit") {
    Judge judge(2);
    judge.began(1);
    judge.exited(0, W_EXITCODE(0, 0));
    REQUIRE(judge.first_failure());
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("another rank, after that exit") {
    Judge judge(2);
    judge.exited(0, W_EXITCODE(0, 0));
    CHECK_FALSE(judge.first_failure());
    judge.began(1);
    REQUIRE(judge.first_failure());
    CHECK(judge.first_failure()->rank == 0);
  }
}

TEST_CASE("a goodbye does not count for an init that began after it") {
  Judge judge(1);
  judge.began(0);
  judge.said_goodbye(0);
  judge.began(0);
  judge.exited(0, W_EXITCODE(0, 0));
  CHECK(judge.first_failure());
}

TEST_CASE("code 0 after the shutdown of a failed epoch is a failure that quotes the epoch's") {
  Judge judge(2);
  for (const int rank : {0, 1}) judge.began(rank);
  judge.shut_down_after(1, "rank 0: an operation was abandoned");
  judge.exited(1, W_EXITCODE(0, 0));
  REQUIRE(judge.first_failure());
  CHECK(judge.first_failure()->rank == 1);
  CHECK(judge.first_failure()->cause ==
        "exited with code 0 after its job had failed: rank 0: an operation was abandoned");
  CHECK(judge.first_failure()->exit_code == 1);
}

TEST_CASE("an epoch's failure does not count if the next epoch ends well") {
  Judge judge(1);
  judge.began(0);
  judge.shut_down_after(0, "lost");
  judge.began(0);
  judge.said_goodbye(0);
  judge.exited(0, W_EXITCODE(0, 0));
  CHECK_FALSE(judge.first_failure());
}

TEST_CASE("a goodbye followed by another exit code is still a failure") {
  Judge judge(1);
  judge.began(0);
  judge.said_goodbye(0);
  judge.exited(0, W_EXITCODE(5, 0));
  REQUIRE(judge.first_failure());
  CHECK(judge.first_failure()->exit_code == 5);
}

namespace {

// A judge of three ranks that have begun. The named ranks have left, in this order.
Judge after_departures(const std::vector<int>& ranks) {
  Judge judge(3);
  for (const int rank : {0, 1, 2}) judge.began(rank);
  for (const int rank : ranks) judge.leaves(rank);
  return judge;
}

}  // namespace

TEST_CASE("a rank that left before the first failure and exits later with its own code is the first to fail") {
  SECTION("its goodbye makes the others fail") {
    Judge judge = after_departures({1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({1});
    CHECK(judge.first_failure()->rank == 0);
    judge.exited(2, W_EXITCODE(1, 0));
    CHECK(judge.first_failure()->rank == 0);
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->rank == 1);
    CHECK(judge.first_failure()->exit_code == 3);
  }
  SECTION("a rank that fails because of it may leave as well") {
    Judge judge = after_departures({1, 0});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({0, 1});
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->exit_code == 3);
  }
  SECTION("that rank may have left an earlier epoch and be in another") {
    Judge judge = after_departures({0, 1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({1});
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->exit_code == 3);
  }
  SECTION("three ranks leave one after the other") {
    Judge judge = after_departures({1, 2, 0});
    judge.exited(0, W_EXITCODE(5, 0));
    judge.were_away({0, 1, 2});
    judge.exited(1, W_EXITCODE(6, 0));
    judge.exited(2, W_EXITCODE(7, 0));
    CHECK(judge.first_failure()->exit_code == 6);
  }
  SECTION("the first failure was code 0 after a failed epoch") {
    Judge judge = after_departures({1});
    judge.shut_down_after(0, "rank 1 has left");
    judge.exited(0, 0);
    judge.were_away({1});
    CHECK(judge.first_failure()->rank == 0);
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->exit_code == 3);
  }
}

TEST_CASE("a later exit does not change the first failure") {
  SECTION("if the rank left after it") {
    Judge judge = after_departures({0, 1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({0, 1});
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("if the rank left an earlier epoch and is in another") {
    Judge judge = after_departures({1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({});
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("if the code is 0") {
    Judge judge = after_departures({1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({1});
    judge.exited(1, 0);
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("if a signal ends the rank") {
    Judge judge = after_departures({1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({1});
    judge.exited(1, signal(9));
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("if hvdrun has told the ranks to end") {
    Judge judge = after_departures({1});
    judge.exited(0, W_EXITCODE(1, 0));
    judge.were_away({1});
    judge.ending();
    judge.exited(1, W_EXITCODE(143, 0));
    CHECK(judge.first_failure()->rank == 0);
  }
  SECTION("if a signal killed the first") {
    Judge judge = after_departures({1});
    judge.exited(0, signal(11));
    judge.were_away({1});
    judge.exited(1, W_EXITCODE(3, 0));
    CHECK(judge.first_failure()->rank == 0);
  }
}

TEST_CASE("a lost rank has failed unless it had ended before") {
  Judge judge(3);
  judge.exited(0, W_EXITCODE(0, 0));
  judge.lost(0, "lost with its host");
  CHECK_FALSE(judge.first_failure());
  judge.lost(1, "lost with its host");
  judge.lost(2, "lost as well");
  REQUIRE(judge.first_failure());
  CHECK(judge.first_failure()->rank == 1);
  CHECK(judge.first_failure()->cause == "lost with its host");
  CHECK(judge.first_failure()->exit_code == 1);
  CHECK_FALSE(judge.running(2));
}
