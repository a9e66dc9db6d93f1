// Elastic jobs whose hosts a script lists. The script prints a file, which a test replaces while the job runs. The
// names localhost and 127.0.0.1 count as two hosts, so a job grows and shrinks on this machine.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "tests/launcher/elastic_run.h"
#include "tests/launcher/host_list.h"
#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::vector<std::string> discovering(const std::string& script, const std::string& worker) {
  return {"-np", "2", "--min-np", "1", "--host-discovery-script", script, "sh", "-c", worker, RUEDA_LAUNCHER_RANK};
}

std::string failure_of(const std::string& script) {
  HvdrunProcess run(discovering(script, "exec $0 join bye"));
  CHECK(run.wait() == 1);
  run.wait_for_all_to_end();
  return run.err();
}

}  // namespace

TEST_CASE("a job grows and shrinks with the hosts that its script lists, and no worker counts as failed") {
  const HostList list("localhost:2\n");
  HvdrunProcess run(discovering(list.script(),
                                "case $RUEDA_WORKER_ID in 0|1) exec $0 join notice reset join notice reset join;; "
                                "2) exec $0 join over join notice notice notice bye;; *) exec $0 join;; esac"));
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  list.replace("localhost:2\n\n127.0.0.1:1\n");
  for (const char* worker : {"[0]", "[1]", "[2]"}) run.read_until(std::string(worker) + "<stdout>:plan 2 rank");
  CHECK(run.out().find("[2]<stdout>:plan 2 rank 2 of 3") != std::string::npos);
  list.replace("127.0.0.1:1\n");
  for (const char* worker : {"0", "1"})
    run.read_until("worker " + std::string(worker) + " is in no further plan: its slot " + worker);
  run.read_until("[2]<stdout>:plan 3 rank 0 of 1");
  list.replace("127.0.0.1:2\n");  // whose newcomer is the third notice, which worker 2 waits for
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK(run.err().find("failed") == std::string::npos);
  run.wait_for_all_to_end();
}

TEST_CASE("a script that fails the first time ends the job with its reason") {
  CHECK_THAT(failure_of("echo no route >&2; exit 3"), Contains("it exited with code 3: no route"));
  CHECK_THAT(failure_of("/nowhere/hosts.sh"), Contains("it exited with code 127") && Contains("not found"));
  CHECK_THAT(failure_of("echo a:2; echo b:0"), Contains("line 2: \"b:0\" is not HOST or HOST:SLOTS"));
  CHECK_THAT(failure_of("printf 'a\\n\\na:3\\n'"), Contains("line 3: host \"a\" is given twice"));
  CHECK_THAT(failure_of("yes localhost"), Contains("it printed more than 1048576 bytes"));
}

TEST_CASE("from a run of the script to the next one it is as long as --discovery-interval says") {
  const HostList list("localhost:2\n");
  const std::string runs = list.path() + ".runs";
  // The workers wait for so many runs.
  const auto moments = [&](const std::string& interval, int lines) {
    std::ofstream(runs).close();
    auto arguments =
        discovering("date +%s%N >>" + runs + "; " + list.script(),
                    "tail -n +1 -f " + runs + " | head -n " + std::to_string(lines) + "; exec $0 join bye");
    arguments.insert(arguments.begin(), {"--discovery-interval", interval});
    HvdrunProcess run(arguments);
    CHECK(run.wait() == 0);
    std::ifstream file(runs);
    return std::vector<int64_t>(std::istream_iterator<int64_t>(file), {});
  };
  const auto rare = moments("1.5", 2);
  REQUIRE(rare.size() >= 2);
  CHECK(rare[1] - rare[0] > 1'400'000'000);
  const auto often = moments("0.05", 10);
  int64_t least = often.back() - often.front();
  for (size_t at = 1; at < often.size(); ++at) least = std::min(least, often[at] - often[at - 1]);
  CHECK(least < 900'000'000);
}

TEST_CASE("with --admit discovered the others go on without a newcomer that is slow, and it joins once it comes") {
  const HostList list("localhost:1\n");
  const std::string gate = list.path() + ".gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  HvdrunProcess run({"-np", "1", "--min-np", "1", "--admit", "discovered", "--rejoin-timeout", "2",
                     "--host-discovery-script", list.script(), "sh", "-c",
                     "case $RUEDA_WORKER_ID in 0) exec $0 join notice reset join notice reset join bye;; "
                     "*) read _ <" +
                         gate + "; exec $0 join bye;; esac",
                     RUEDA_LAUNCHER_RANK});
  run.read_until("[0]<stdout>:plan 1 rank 0 of 1");
  list.replace("localhost:2\n");
  run.read_until("[0]<stdout>:plan 3 rank 0 of 1");
  std::ofstream(gate) << "go on\n";
  run.read_until("[1]<stdout>:plan 4 rank 1 of 2");
  CHECK(run.wait() == 0);
  INFO(run.err());
  CHECK(
      reported(run) ==
      Lines{"plan 2 has 2 workers, because worker 0 (host localhost) asked for a reset",
            "worker 1 (host localhost) did not call init within 2 s (--rejoin-timeout): the others go on, and it joins "
            "once it does",
            "plan 3 has 1 worker, because worker 1 (host localhost) did not call init within 2 s (--rejoin-timeout)",
            "plan 4 has 2 workers, because worker 0 (host localhost) asked for a reset"});
  run.wait_for_all_to_end();
}

TEST_CASE("a script that hangs is ended at its limit, with all that it started") {
  auto arguments = discovering("setsid sleep 100000 & sleep 100000", "exec $0 join bye");
  arguments.insert(arguments.begin(), {"--discovery-timeout", "0.2"});
  HvdrunProcess first(arguments);
  CHECK(first.wait() == 1);
  CHECK_THAT(first.last_error(), Contains("it did not end within 0.2 s"));
  first.wait_for_all_to_end();

  const HostList list("localhost:2\n");
  arguments = discovering(list.script() + "; grep -q hang " + list.path() + " && exec sleep 100000; true",
                          "exec $0 join notice reset join over");
  arguments.insert(arguments.begin(), {"--discovery-timeout", "1"});
  HvdrunProcess later(arguments);
  for (const char* worker : {"[0]", "[1]"}) later.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  list.replace("hang:1\n");
  later.read_errors_until("it did not end within 1 s; the job keeps its hosts");
  list.replace("localhost:3\n");
  later.read_until("[2]<stdout>:");
  later.send(SIGTERM);
  CHECK(later.wait() == 143);
  CHECK(later.err().find("host hang") == std::string::npos);
  later.wait_for_all_to_end();
}

TEST_CASE("a discovered host that is lost is tried again, and gets a new worker") {
  HvdrunProcess run(discovering("echo localhost; echo 127.0.0.1",
                                "case $RUEDA_WORKER_ID in 0) exec $0 join over join notice reset join bye;; "
                                "1) exec $0 join pause;; *) exec $0 join bye;; esac"));
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  REQUIRE(kill(run.agent_of_worker(1), SIGKILL) == 0);
  run.read_until("[2]<stdout>:plan 3 rank 1 of 2");
  CHECK(run.wait() == 0);
  CHECK_THAT(run.err(), Contains("host 127.0.0.1 has lost its agent"));
  run.wait_for_all_to_end();
}

TEST_CASE("a blacklisted host gets workers again once it has cooled down") {
  auto arguments = discovering("echo localhost; echo 127.0.0.1",
                               "case $RUEDA_WORKER_ID in 0) exec $0 join over join notice reset join bye;; "
                               "1) exec $0 join exit=3;; *) exec $0 join bye;; esac");
  arguments.insert(arguments.begin(), {"--blacklist-after", "1", "--blacklist-cooldown-range", "1", "1"});
  HvdrunProcess run(arguments);
  run.read_until("[2]<stdout>:plan 3 rank 1 of 2");
  CHECK(run.wait() == 0);
  CHECK_THAT(run.err(), Contains("host 127.0.0.1 gets no more workers for 1.0 s"));
  run.wait_for_all_to_end();
}

TEST_CASE("MASTER_ADDR of a worker is the host of rank 0 as its hosts reach it") {
  char name[256] = "";
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  for (const std::string& hosts : {std::string("echo localhost:2"), std::string("echo localhost; echo 127.0.0.1")}) {
    HvdrunProcess run(discovering(hosts, "echo master $MASTER_ADDR; exec $0 join bye"));
    CHECK(run.wait() == 0);
    const std::string master = hosts == "echo localhost:2" ? "127.0.0.1" : name;
    for (const char* worker : {"[0]", "[1]"})
      CHECK_THAT(run.out(), Contains(std::string(worker) + "<stdout>:master " + master + "\n"));
  }
}

TEST_CASE("a script that fails later is run again, and the job keeps its hosts meanwhile") {
  const HostList list("localhost:2\n");
  HvdrunProcess run(discovering(list.script(), "exec $0 join notice reset join over"));
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  list.replace("<html>\n");
  run.read_errors_until("line 1: ");
  CHECK_THAT(run.err(), Contains("the job keeps its hosts, and the script is run again until it succeeds"));
  CHECK(run.err().find("plan 2") == std::string::npos);
  list.replace("localhost:3\n");
  run.read_until("[2]<stdout>:");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  run.wait_for_all_to_end();
}

TEST_CASE("hvdrun --signal-hosts has the script run at once, however long its interval is, also while it is failing") {
  const HostList list("localhost:2\n");
  auto arguments = discovering(list.script(), "exec $0 join notice reset join over");
  arguments.insert(arguments.begin(), {"--discovery-interval", "100000"});
  HvdrunProcess run(arguments);
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  const auto tell = [pid = std::to_string(run.pid()), &list] {
    HvdrunProcess told({"--signal-hosts", pid});
    CHECK(told.wait() == 0);
    CHECK(told.out() == "--host-discovery-script " + list.script() + " runs now\n");
  };
  list.replace("<html>\n");
  tell();
  run.read_errors_until("the job keeps its hosts");
  list.replace("localhost:3\n");
  tell();
  run.read_until("[2]<stdout>:");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  run.wait_for_all_to_end();
}

TEST_CASE("a job that waits for slots has the script run at once, however long its interval is") {
  const std::string both = "localhost:1\n127.0.0.1:1\n";
  const HostList list(both);
  const std::string gate = list.path() + ".gate";
  // A run that finds the gate ends once the test has come there, too.
  HvdrunProcess run({"-np", "2", "--min-np", "2", "--discovery-interval", "100000", "--discovery-timeout", "100000",
                     "--host-discovery-script", list.script() + "; test ! -p " + gate + " || echo listed >" + gate,
                     "sh", "-c",
                     "case $RUEDA_WORKER_ID in 0) exec $0 join over join bye;; 1) exec $0 join pause;; "
                     "*) exec $0 join bye;; esac",
                     RUEDA_LAUNCHER_RANK});
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  list.replace("localhost:1\n");
  HvdrunProcess told({"--signal-hosts", std::to_string(run.pid())});
  CHECK(told.wait() == 0);
  std::string said;
  std::ifstream(gate) >> said;
  CHECK(said == "listed");
  REQUIRE(::unlink(gate.c_str()) == 0);
  list.replace(both);
  REQUIRE(kill(run.process_of_worker(1), SIGKILL) == 0);
  run.read_until("[2]<stdout>:plan 2 rank 1 of 2");
  CHECK(run.wait() == 0);
  run.wait_for_all_to_end();
}

TEST_CASE("a run that may have read the list before it changed is followed by another one at once") {
  const HostList list("localhost:2\n");
  const std::string gate = list.path() + ".gate", runs = list.path() + ".runs";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  std::ofstream(runs).close();
  // The first run ends. The second one prints the list, and waits at the gate before it ends.
  auto arguments = discovering(
      "echo run >>" + runs + "; " + list.script() + "; test $(wc -l <" + runs + ") != 2 || { read _ <" + gate + "; }",
      "exec $0 join notice reset join over");
  arguments.insert(arguments.begin(), {"--discovery-interval", "100000", "--discovery-timeout", "100000"});
  HvdrunProcess run(arguments);
  for (const char* worker : {"[0]", "[1]"}) run.read_until(std::string(worker) + "<stdout>:plan 1 rank");
  const std::string pid = std::to_string(run.pid());
  HvdrunProcess first({"--signal-hosts", pid});
  CHECK(first.wait() == 0);
  std::ofstream opened(gate);  // once the run waits there
  list.replace("localhost:3\n");
  HvdrunProcess second({"--signal-hosts", pid});
  CHECK(second.wait() == 0);
  opened << "go on\n";
  opened.close();
  run.read_until("[2]<stdout>:");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  run.wait_for_all_to_end();
}

TEST_CASE("hvdrun --signal-hosts says which jobs it is not for") {
  HvdrunProcess run({"-np", "2", "--min-np", "1", "sh", "-c", "exec $0 join pause", RUEDA_LAUNCHER_RANK});
  run.read_until("<stdout>:plan 1 rank");
  const std::string pid = std::to_string(run.pid());
  HvdrunProcess without({"--signal-hosts", pid});
  CHECK(without.wait() == 1);
  CHECK(without.last_error() ==
        "hvdrun: the job has no --host-discovery-script, so its hosts stay those that it was started with");
  run.send(SIGTERM);
  CHECK(run.wait() == 143);
  HvdrunProcess gone({"--signal-hosts", pid});
  CHECK(gone.wait() == 1);
  CHECK_THAT(gone.last_error(), StartsWith("hvdrun: no hvdrun with pid " + pid + " answers on this machine") &&
                                    Contains("only an hvdrun with an elastic job does"));
  HvdrunProcess wrong({"--signal-hosts", "x"});
  CHECK(wrong.wait() == 2);
  CHECK_THAT(wrong.last_error(), StartsWith("hvdrun: --signal-hosts: "));
}

TEST_CASE("a script that hangs is killed after ten seconds, with all that it has started", "[.][long]") {
  CHECK_THAT(failure_of("setsid sleep 1000 & trap '' TERM; sleep 1000"), Contains("it did not end within 10 s"));
}
