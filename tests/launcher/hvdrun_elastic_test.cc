// Elastic jobs of the real hvdrun, whose workers speak with its store as the engine would (elastic_steps.h). Workers
// are killed, hang, and ask for resets; what the others read and what hvdrun reports is compared with what happened.

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/launcher/elastic_run.h"
#include "tests/launcher/hvdrun_process.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

Lines lines_of_worker(const HvdrunProcess& run, int worker) {
  return HvdrunProcess::lines(run.out(), "[" + std::to_string(worker) + "]<stdout>:");
}

}  // namespace

TEST_CASE("the death of any worker of an elastic job ends its plan, and the others go on in the same processes") {
  for (const int dead : {0, 1, 3}) {
    const std::string number = std::to_string(dead);
    HvdrunProcess run(
        elastic({"-np", "4", "--min-np", "2"},
                "test $RUEDA_WORKER_ID = " + number + " && exec $0 join kill=9; exec $0 join over join bye"));
    CHECK(run.wait() == 0);
    INFO(run.err());
    int rank = 0;
    for (int worker = 0; worker < 4; ++worker) {
      const Lines lines = lines_of_worker(run, worker);
      if (worker == dead) {
        CHECK(lines.size() <= 1);  // its last line may die with it
        continue;
      }
      REQUIRE(lines.size() == 3);
      CHECK(lines[0] == "plan 1 rank " + std::to_string(worker) + " of 4");
      CHECK_THAT(lines[1], StartsWith("rank " + number + " (worker " + number + ", host localhost, pid ") &&
                               Contains(") died: killed by signal 9 (Killed)"));
      CHECK(lines[2] == "plan 2 rank " + std::to_string(rank++) + " of 3");
    }
    CHECK(reported(run) ==
          Lines{"plan 2 has 3 workers, because worker " + number +
                    " (host localhost) failed: killed by signal 9 (Killed)",
                "worker " + number + " (host localhost) failed: killed by signal 9 (Killed), in plan 1",
                "the job succeeded in plan 2 without this worker"});
    run.wait_for_all_to_end();
  }
}

TEST_CASE("with the real engine the others go on after a death, with right sums, from the step that they had reached") {
  for (const int dead : {0, 2}) {
    HvdrunProcess run({"-np", "4", "--min-np", "2", RUEDA_RESETTING_RANK, "40", std::to_string(dead)});
    CHECK(run.wait() == 0);
    INFO(run.err());
    int rank = 0;
    for (int worker = 0; worker < 4; ++worker) {
      if (worker == dead) continue;
      const Lines lines = lines_of_worker(run, worker);
      REQUIRE(lines.size() == 2);
      CHECK(lines[0] == "plan 1 rank " + std::to_string(worker) + " of 4 from step 0");
      // The last step before the death may have come to nothing on all of them.
      CHECK_THAT(lines[1], Equals("plan 2 rank " + std::to_string(rank) + " of 3 from step 20") ||
                               Equals("plan 2 rank " + std::to_string(rank) + " of 3 from step 19"));
      ++rank;
    }
    CHECK(reported(run).back() == "the job succeeded in plan 2 without this worker");
    run.wait_for_all_to_end();
  }
}

TEST_CASE("an elastic job in which nothing happens says nothing and exits with 0") {
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "1"}, "exec $0 join bye"));
  CHECK(run.wait() == 0);
  CHECK(run.err().empty());
  HvdrunProcess plain({"-np", "2", "--min-np", "1", "sh", "-c",
                       "echo $HOROVOD_ELASTIC $RUEDA_ELASTIC $HOROVOD_RANK $RUEDA_REJOIN_TIMEOUT $RUEDA_ADMIT"});
  CHECK(plain.wait() == 0);
  CHECK(lines_of_worker(plain, 1) == Lines{"1 1 1 30 ready"});
}

TEST_CASE("below --min-np an elastic job ends with a sentence once --elastic-timeout is over") {
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "2", "--elastic-timeout", "0", "--grace-seconds", "1"},
                            "test $RUEDA_WORKER_ID = 1 && exec $0 join kill=9; exec $0 join over join exit=7"));
  CHECK(run.wait() == 137);
  INFO(run.err());
  CHECK_THAT(reported(run).back(),
             StartsWith("the job failed: 1 of at least 2 workers (--min-np) could run within 0 s (--elastic-timeout)"));
  const Lines lines = lines_of_worker(run, 0);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[2], StartsWith("the job has failed: 1 of at least 2 workers"));
  run.wait_for_all_to_end();
}

TEST_CASE("a new worker starts in the slot of one that died, says that it is ready, and joins the next plan") {
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "2"},
                            "case $RUEDA_WORKER_ID in 1) exec $0 join kill=9;; 0) exec $0 join over join bye;; "
                            "*) exec $0 join bye;; esac"));
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK(lines_of_worker(run, 0).back() == "plan 2 rank 0 of 2");
  CHECK(lines_of_worker(run, 2) == Lines{"plan 2 rank 1 of 2"});
  CHECK_THAT(reported(run).front(), Contains("1 of at least 2 workers (--min-np) are left, so they wait for more"));
}

TEST_CASE("a new worker's variables do not count members of the last plan that have died") {
  HvdrunProcess run(elastic({"-np", "4", "--min-np", "3"},
                            "case $RUEDA_WORKER_ID in 1) exec $0 join kill=9;; 3) exec $0 join over kill=9;; "
                            "0|2) exec $0 join over join bye;; "
                            "*) echo $RUEDA_LOCAL_SIZE of $RUEDA_SIZE; exec $0 join bye;; esac"));
  CHECK(run.wait() == 0);
  INFO(run.err());
  // Plan 2 had been published with worker 3 in it; the new workers start two seconds later.
  CHECK_THAT(reported(run).front(), StartsWith("plan 2 has 3 workers"));
  const Lines lines = lines_of_worker(run, 4);
  REQUIRE(!lines.empty());
  int local = 0, size = 0;
  REQUIRE(std::sscanf(lines[0].c_str(), "%d of %d", &local, &size) == 2);
  CHECK(local <= size);
}

TEST_CASE("members hear of a newcomer that is ready, and their request brings the plan with it") {
  HvdrunProcess run(
      elastic({"-np", "3", "--min-np", "1"},
              "case $RUEDA_WORKER_ID in 1) exec $0 join kill=9;; 0|2) exec $0 join over join notice reset join bye;;"
              "*) exec $0 join bye;; esac"));
  CHECK(run.wait() == 0);
  INFO(run.err());
  for (const int worker : {0, 2}) {
    const Lines lines = lines_of_worker(run, worker);
    REQUIRE(lines.size() == 5);
    CHECK(lines[3] == "changes 2 to plan 3, newcomers 1");
    CHECK(lines[4] == "plan 3 rank " + std::to_string(worker / 2) + " of 3");
  }
  CHECK(lines_of_worker(run, 3) == Lines{"plan 3 rank 2 of 3"});  // in slot 1, but behind those that hold the state
}

TEST_CASE("a worker that hangs on its way into the next plan is named and ended, and the others go on") {
  HvdrunProcess run(elastic({"-np", "3", "--min-np", "1", "--rejoin-timeout", "0.5"},
                            "case $RUEDA_WORKER_ID in 0) exec $0 join kill=9;; 1) exec $0 join over pause;;"
                            "*) exec $0 join over join bye;; esac"));
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK_THAT(run.err(),
             Contains("worker 1 (host localhost") && Contains(" did not join plan 2 within 0.5 s (--rejoin-timeout)"));
  CHECK(lines_of_worker(run, 2).back() == "plan 3 rank 0 of 1");
  run.wait_for_all_to_end();
}

// Nobody waits for a worker before its program has come; a plan that it has missed is no reason to wait for longer.
TEST_CASE("a worker that is stopped counts as dead also if plans have come and gone since it joined its last one") {
  HvdrunProcess run(
      elastic({"-np", "4", "--min-np", "1"},
              "case $RUEDA_WORKER_ID in 0) exec $0 join over join bye;; 1) exec $0 join over plan=2 kill=9;;"
              "2) exec $0 join plan=3 kill=19;; 3) exec $0 join kill=9;; *) exec $0 join bye;; esac"));
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK_THAT(run.err(), Contains("worker 2 (host localhost") &&
                            Contains(") failed: it has been stopped by signal 19 ") && !Contains("--rejoin-timeout"));
  CHECK_THAT(lines_of_worker(run, 0).back(), StartsWith("plan 4 rank 0 of "));  // new workers may have come as well
  run.wait_for_all_to_end();
}

TEST_CASE("exit code 0 in the middle of a plan counts as a death") {
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "1"},
                            "test $RUEDA_WORKER_ID = 1 && exec $0 join exit=0; exec $0 join over join bye"));
  CHECK(run.wait() == 0);
  CHECK_THAT(lines_of_worker(run, 0).at(1), Contains("died: exited with code 0 without shutdown"));
}

TEST_CASE("--reset-limit ends the job with its sentence, and the workers read why") {
  HvdrunProcess run(elastic({"-np", "3", "--min-np", "1", "--reset-limit", "0", "--grace-seconds", "1"},
                            "test $RUEDA_WORKER_ID = 1 && exec $0 join exit=5; exec $0 join over join bye"));
  CHECK(run.wait() == 5);
  CHECK_THAT(reported(run).back(), StartsWith("the job failed: the job was reset more than 0 times (--reset-limit)"));
  CHECK_THAT(lines_of_worker(run, 0).back(), StartsWith("the job has failed: the job was reset more than 0 times"));
}

TEST_CASE("a worker that dies leaves no process behind while the others go on") {
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "1", "--max-np", "2", "--grace-seconds", "1"},
                            "test $RUEDA_WORKER_ID = 0 && exec $0 join over join pause; "
                            "test $RUEDA_WORKER_ID = 1 && exec $0 join fork kill=9; exec $0 pause"));
  run.read_until("[0]<stdout>:plan 2 rank 0 of 1");
  // The orphan ignores SIGTERM; the agent finds it by its worker's number and kills it after the grace.
  const auto orphan_lives = [&run] {
    for (const auto& process : run.processes()) {
      const std::string all = rueda::test::text_of("/proc/" + std::to_string(process.pid) + "/environ");
      if (all.find("RUEDA_WORKER_ID=1") == std::string::npos) continue;
      HvdrunProcess::wait_for_end_of(process.pid);
      return true;
    }
    return false;
  };
  while (orphan_lives()) {
  }
  CHECK(kill(run.pid(), SIGTERM) == 0);
  CHECK(run.wait() == 143);
  run.wait_for_all_to_end();
}

TEST_CASE("signals end an elastic job as they end others: nobody is started in the place of a worker that they end") {
  for (const int number : {SIGTERM, SIGINT}) {
    HvdrunProcess run(elastic({"-np", "3", "--min-np", "1", "--grace-seconds", "1"}, "exec $0 join pause"));
    for (const char* rank : {"0", "1", "2"}) run.read_until("[" + std::string(rank) + "]<stdout>:plan 1");
    run.send(number);
    INFO("signal " << number);
    CHECK(run.wait() == 128 + number);
    CHECK_THAT(reported(run).back(), StartsWith("the job was ended by signal " + std::to_string(number)));
    CHECK(run.err().find("plan 2") == std::string::npos);
    run.wait_for_all_to_end();
  }
}

TEST_CASE(
    "--output-filename has a folder for each worker, also for one that comes later, and closes that of one that "
    "ended") {
  const auto folder = std::filesystem::temp_directory_path() / ("rueda-elastic-" + std::to_string(getpid()));
  HvdrunProcess run(elastic({"-np", "2", "--min-np", "2", "--output-filename", folder.string()},
                            "case $RUEDA_WORKER_ID in 1) exec $0 join kill=9;; 0) exec $0 join over join pause;; "
                            "*) exec $0 join pause;; esac"));
  run.read_until("[2]<stdout>:plan 2 rank 1 of 2");
  std::string open_files;
  for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(run.pid()) + "/fd"))
    open_files += std::filesystem::read_symlink(each).string() + "\n";
  CHECK_THAT(open_files, Contains("rank.2/stdout") && !Contains("rank.1/"));
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  std::ifstream file(folder / "rank.2" / "stdout");
  std::string line;
  std::getline(file, line);
  CHECK(line == "plan 2 rank 1 of 2");
  std::filesystem::remove_all(folder);
}
