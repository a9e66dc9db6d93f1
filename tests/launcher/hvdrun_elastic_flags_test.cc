// What flags and variables of elastic jobs make of a job, and which of them are refused.

#include <signal.h>

#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/launcher/elastic_run.h"
#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string refused(const std::vector<std::string>& arguments) {
  HvdrunProcess run(arguments);
  CHECK(run.wait() == 2);
  const auto lines = HvdrunProcess::lines(run.err(), "hvdrun: ");
  REQUIRE(lines.size() == 1);
  return lines[0];
}

}  // namespace

TEST_CASE("HOROVOD_ELASTIC_TIMEOUT is how long a job waits for workers, unless --elastic-timeout says so") {
  const auto variable = [](const std::string& value) {
    return std::vector<std::string>{"env", "HOROVOD_ELASTIC_TIMEOUT=" + value};
  };
  const std::string script = "test $RUEDA_WORKER_ID = 1 && exec $0 join kill=9; exec $0 join over join exit=7";
  for (const auto& [value, flag, sentence] : {std::tuple("0.25", "", "could run within 0.25 s (--elastic-timeout)"),
                                              std::tuple("500", "0", "could run within 0 s (--elastic-timeout)")}) {
    std::vector<std::string> flags{"-np", "2", "--min-np", "2", "--grace-seconds", "1"};
    if (*flag != 0) flags.insert(flags.end(), {"--elastic-timeout", flag});
    HvdrunProcess run(elastic(flags, script), variable(value));
    CHECK(run.wait() == 137);
    CHECK_THAT(reported(run).back(), Contains("the job failed: 1 of at least 2 workers") && Contains(sentence));
    run.wait_for_all_to_end();
  }
  for (const char* value : {"soon", "-1", "1e7"}) {
    HvdrunProcess run({"-np", "2", "--min-np", "2", "true"}, variable(value));
    CHECK(run.wait() == 2);
    CHECK(reported(run) ==
          Lines{"HOROVOD_ELASTIC_TIMEOUT is \"" + std::string(value) + "\"; it must be seconds from 0 to 1000000"});
  }
}

TEST_CASE("under --horovod-defaults a failure ends a host, and nobody waits for newcomers, in elastic jobs alone") {
  for (const bool given : {false, true}) {
    std::vector<std::string> flags{"--horovod-defaults", "-np", "2", "--min-np", "1", "-H", "localhost:1,127.0.0.1:1"};
    if (given) flags.insert(flags.end(), {"--blacklist-after", "2"});
    HvdrunProcess run(elastic(flags, "test $RUEDA_WORKER_ID = 1 && exec $0 join exit=3; exec $0 join over join bye"));
    CHECK(run.wait() == 0);
    INFO(run.err());
    CHECK((run.err().find("host 127.0.0.1 gets no more workers") == std::string::npos) == given);
  }
  // Worker 2 never becomes ready.
  HvdrunProcess run(
      elastic({"--horovod-defaults", "-np", "2", "--min-np", "1", "--blacklist-after", "9"},
              "case $RUEDA_WORKER_ID in 0) exec $0 join over join notice pause;; 1) exec $0 join kill=9;; "
              "*) exec $0 pause;; esac"));
  run.read_until("[0]<stdout>:changes 2 to plan 3, newcomers 1");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  HvdrunProcess plain({"--horovod-defaults", "-np", "1", "true"});
  CHECK(plain.wait() == 0);
  CHECK(plain.err().empty());
}

TEST_CASE("flags of elastic jobs that contradict each other are refused in one sentence") {
  CHECK_THAT(refused({"-np", "2", "--min-np", "3", "true"}), StartsWith("--min-np 3 is above -np 2"));
  CHECK_THAT(refused({"-np", "4", "--min-np", "2", "--max-np", "3", "true"}), StartsWith("--max-np 3 is below -np 4"));
  CHECK_THAT(refused({"--min-np", "2", "true"}), StartsWith("an elastic job needs -np"));
  CHECK_THAT(refused({"-np", "4", "--min-np", "2", "-H", "localhost:2", "true"}),
             StartsWith("4 workers do not fit into 2 slots on 1 hosts"));
  CHECK_THAT(refused({"-np", "2", "--min-np", "2", "--mpi", "true"}), StartsWith("--mpi cannot start elastic jobs"));
  CHECK_THAT(refused({"-np", "2", "--slots", "2", "true"}),
             StartsWith("--slots-per-host: give the slots with the hosts"));
  CHECK_THAT(refused({"-np", "2", "--min-np", "1", "--discovery-interval", "2", "true"}),
             StartsWith("--discovery-interval is for --host-discovery-script: leave it out"));
  CHECK_THAT(refused({"-np", "2", "--host-discovery-script", "true", "--discovery-interval", "0", "true"}),
             StartsWith("--discovery-interval: "));
}

TEST_CASE("a range of cooldowns that is no two whole seconds from 1 to 3600, in order, is refused in one sentence") {
  for (const auto& [least, most] :
       {std::pair("0", "5"), std::pair("1", "3601"), std::pair("1.5", "3"), std::pair("5", "1"), std::pair("-1", "3"),
        std::pair("3", "soon"), std::pair("1", "99999999999")}) {
    CHECK(refused({"-np", "2", "--min-np", "1", "--blacklist-cooldown-range", least, most, "true"}) ==
          "--blacklist-cooldown-range: the range is " + std::string(least) + " to " + most +
              " s; it must be MIN MAX, whole seconds with 1 <= MIN <= MAX <= 3600");
  }
  HvdrunProcess widest(
      {"-np", "1", "--min-np", "1", "--blacklist-cooldown-range", "1", "3600", RUEDA_LAUNCHER_RANK, "join", "bye"});
  CHECK(widest.wait() == 0);
}
