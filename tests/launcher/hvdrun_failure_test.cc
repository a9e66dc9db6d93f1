// What hvdrun reports and exits with when a rank fails, a signal arrives, or a resource is missing. Small programs are
// the ranks; launcher_rank writes to the store as the engine would.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/launcher/hvdrun_process.h"

using namespace rueda::core::launcher;
using Lines = std::vector<std::string>;

namespace {

// Returns hvdrun's own lines on stderr, without pids.
Lines said(const HvdrunProcess& run) {
  auto lines = HvdrunProcess::lines(run.err(), "hvdrun: ");
  for (auto& line : lines) {
    const size_t pid = line.find("pid ");
    if (pid != std::string::npos) line.erase(pid, line.find(')', pid) - pid);
  }
  return lines;
}

std::string refusal(const std::vector<std::string>& arguments, int exit_code) {
  HvdrunProcess run(arguments);
  CHECK(run.wait() == exit_code);
  CHECK(run.out().empty());
  const auto lines = HvdrunProcess::lines(run.err(), "hvdrun: ");
  REQUIRE(lines.size() == 1);
  return lines[0];
}

}  // namespace

TEST_CASE("hvdrun refuses a job that cannot run in one sentence, before anything starts") {
  CHECK(refusal({"-np", "4", "-H", "localhost:2", "true"}, 2).find("4 processes do not fit into 2 slots on 1 host") ==
        0);
  CHECK(refusal({"-np", "1", "no-such-program-here"}, 127) == "there is no program \"no-such-program-here\" in PATH");
  CHECK(refusal({"-np", "1", "/no/such/program"}, 127) == "there is no program \"/no/such/program\"");
  CHECK(refusal({"-np", "1", "/etc/passwd"}, 126) == "cannot run \"/etc/passwd\": Permission denied");
  CHECK(refusal({"-np", "1", "/etc"}, 126) == "cannot run \"/etc\": Is a directory");
  CHECK(refusal({"--vrebose", "-np", "1", "true"}, 2) == "there is no flag --vrebose; did you mean --verbose?");
  CHECK(refusal({"--hostfile", "/etc", "true"}, 2) == "hostfile /etc cannot be read: Is a directory");
  CHECK(refusal({"true"}, 2) == "say how many ranks: hvdrun -np 2 program");
  CHECK(refusal({"-np", "2"}, 2) == "no program to run; hvdrun --help says how");
}

TEST_CASE("the report at the end names the first failure and its last lines, and its exit code is hvdrun's") {
  HvdrunProcess run(
      {"-np", "3", "--grace-seconds", "1", "sh", "-c",
       "if [ $RUEDA_RANK = 1 ]; then for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; exit 3; fi;"
       "exec sleep 1000"});
  CHECK(run.wait() == 3);
  Lines expected = {"the first to fail: rank 1 (host localhost, ) exited with code 3", "its last lines on stderr:"};
  for (int i = 3; i <= 12; ++i) expected.push_back("  line " + std::to_string(i));
  CHECK(said(run) == expected);
  CHECK(run.err().ends_with("hvdrun:   line 12\n"));
}

TEST_CASE("the exit code is 128 plus the signal that killed the first rank to fail") {
  HvdrunProcess run({"-np", "2", "sh", "-c", "test $RUEDA_RANK = 0 && kill -SEGV $$; exec sleep 1000"});
  CHECK(run.wait() == 139);
  CHECK(said(run) == Lines{"the first to fail: rank 0 (host localhost, ) killed by signal 11 (Segmentation fault)"});
}

TEST_CASE("ranks that fail because of the verdict learn the first failure and do not replace it") {
  HvdrunProcess run({"-np", "3", "sh", "-c",
                     "if [ $RUEDA_RANK = 2 ]; then exec $0 begin kill=9; else exec $0 begin death exit=55; fi",
                     RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() == 137);
  CHECK(said(run) == Lines{"the first to fail: rank 2 (host localhost, ) killed by signal 9 (Killed)"});
  for (const std::string rank : {"0", "1"}) {
    const auto lines = HvdrunProcess::lines(run.out(), "[" + rank + "]<stdout>:");
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("rank 2 (host localhost, pid ") == 0);
    CHECK(lines[0].find(") died: killed by signal 9 (Killed)") != std::string::npos);
  }
}

TEST_CASE("exit code 0 is a success only after a goodbye or a withdrawn wish") {
  HvdrunProcess good({"-np", "2", RUEDA_LAUNCHER_RANK, "begin", "goodbye", "begin", "withdraw", "begin", "goodbye"});
  CHECK(good.wait() == 0);
  HvdrunProcess recovered({"-np", "2", RUEDA_LAUNCHER_RANK, "begin", "fail", "begin", "goodbye"});
  CHECK(recovered.wait() == 0);
  HvdrunProcess lost({"-np", "1", RUEDA_LAUNCHER_RANK, "begin", "goodbye", "begin", "fail"});
  CHECK(lost.wait() == 1);
  CHECK(said(lost) == Lines{"the first to fail: rank 0 (host localhost, ) exited with code 0 after its job had failed: "
                            "the epoch was lost"});
  HvdrunProcess silent({"-np", "2", "sh", "-c", "test $RUEDA_RANK = 1 && exec $0 begin; exec $0 begin death exit=4",
                        RUEDA_LAUNCHER_RANK});
  CHECK(silent.wait() == 1);
  CHECK(said(silent) == Lines{"the first to fail: rank 1 (host localhost, ) exited with code 0 without shutdown"});
}

TEST_CASE("ranks that shut down after their job has failed are told apart from ranks that leave without shutdown") {
  const auto fifo = std::filesystem::temp_directory_path() / ("rueda-abandon-" + std::to_string(getpid()));
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  HvdrunProcess run({"-np", "2", RUEDA_ABANDONING_RANK, fifo.string()});
  CHECK(run.wait() == 1);
  std::filesystem::remove(fifo);
  INFO(run.err());
  const auto lines = said(run);
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0].find("exited with code 0 after its job had failed: ") != std::string::npos);
  CHECK(lines[0].find("\"left\"") != std::string::npos);
}

TEST_CASE("hvdrun names the rank that left with its own code, even if another failed because of it and exited before") {
  const auto fifo = std::filesystem::temp_directory_path() / ("rueda-leave-" + std::to_string(getpid()));
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  HvdrunProcess run({"-np", "2", "sh", "-c",
                     "if [ $RUEDA_RANK = 1 ]; then $0 begin leave; echo left > $1; exec $0 death exit=3; fi;"
                     "$0 begin; read left < $1; exit 1",
                     RUEDA_LAUNCHER_RANK, fifo.string()});
  CHECK(run.wait() == 3);
  std::filesystem::remove(fifo);
  CHECK(said(run) == Lines{"the first to fail: rank 1 (host localhost, ) exited with code 3"});
}

TEST_CASE("hvdrun finds a rank that left before another began once that other begins") {
  HvdrunProcess run({"-np", "2", "sh", "-c", "test $RUEDA_RANK = 0 && exit 0; read go < $1; exec $0 begin death exit=4",
                     RUEDA_LAUNCHER_RANK, "/dev/null"});
  CHECK(run.wait() == 1);
  CHECK(said(run) == Lines{"the first to fail: rank 0 (host localhost, ) exited with code 0 without shutdown"});
}

TEST_CASE("the job's key reaches the ranks and shows in no environment and on no command line") {
  HvdrunProcess run({"-np", "2", RUEDA_LAUNCHER_RANK, "key"});
  CHECK(run.wait() == 0);
  for (const std::string rank : {"0", "1"}) {
    CHECK(HvdrunProcess::lines(run.out(), "[" + rank + "]<stdout>:") == Lines{"the key is hidden"});
  }
}

TEST_CASE("signals reach every rank, and the ranks' reaction decides the exit code") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH}) {
    HvdrunProcess run({"-np", "2", "sh", "-c",
                       "trap 'echo caught; exit 5' INT TERM HUP USR1 USR2 WINCH; echo ready; sleep 1000 & wait"});
    run.read_until("[0]<stdout>:ready");
    run.read_until("[1]<stdout>:ready");
    run.send(number);
    INFO("signal " << number);
    CHECK(run.wait() == 5);
    CHECK(HvdrunProcess::lines(run.out(), "[0]<stdout>:") == Lines{"ready", "caught"});
    CHECK(HvdrunProcess::lines(run.out(), "[1]<stdout>:") == Lines{"ready", "caught"});
  }
}

TEST_CASE("a second Ctrl-C ends ranks that will not end") {
  HvdrunProcess run(
      {"-np", "2", "sh", "-c", "trap 'echo caught' INT TERM; echo ready; while :; do sleep 1000 & wait; done"});
  run.read_until("[0]<stdout>:ready");
  run.read_until("[1]<stdout>:ready");
  run.send(SIGINT);
  run.read_until("[0]<stdout>:caught");
  run.read_until("[1]<stdout>:caught");
  run.send(SIGINT);
  CHECK(run.wait() == 128 + SIGINT);
  CHECK(said(run)[0].find("ended by signal 2 (Interrupt); the first to end: rank ") == 0);
  run.wait_for_all_to_end();
}

TEST_CASE("ranks have the whole grace after SIGTERM, whatever signals come before or after it") {
  const auto gate = std::filesystem::temp_directory_path() / ("rueda-grace-" + std::to_string(getpid()));
  REQUIRE(mkfifo(gate.c_str(), 0600) == 0);
  // A child of the rank waits for SIGWINCH, which arrives after everything that hvdrun did before it.
  HvdrunProcess run({"-np", "1", "--grace-seconds", "600", "sh", "-c",
                     "(trap 'echo later' WINCH; trap '' INT TERM; echo listens; while :; do sleep 1000 & wait; done) & "
                     "trap 'echo interrupted' INT; trap \"echo saving; read go < $0; echo saved; trap '' USR1; "
                     "kill -USR1 0; exit 0\" TERM; echo ready; while :; do sleep 1000 & wait $!; done",
                     gate.string()});
  run.read_until("listens");
  run.read_until("ready");
  run.send(SIGINT);
  run.read_until("interrupted");
  run.send(SIGTERM);
  run.read_until("saving");
  run.send(SIGTERM);
  run.send(SIGWINCH);
  run.read_until("later");
  std::ofstream(gate) << "go\n" << std::flush;
  run.read_until("saved");
  CHECK(run.wait() == 0);
  std::filesystem::remove(gate);
}

TEST_CASE("after SIGTERM and the grace, ranks that ignore SIGTERM are killed") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c",
                     "trap '' TERM; echo ready; while :; do sleep 1000 & wait; done"});
  run.read_until("[0]<stdout>:ready");
  run.read_until("[1]<stdout>:ready");
  run.send(SIGTERM);
  CHECK(run.wait() == 128 + SIGTERM);
  const auto lines = said(run);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("ended by signal 15 (Terminated); the first to end: rank ") == 0);
  CHECK(lines[0].ends_with(" (host localhost, ) killed by signal 9 (Killed)"));
  run.wait_for_all_to_end();
}

namespace {

// Runs hvdrun from a shell, which may close or redirect its descriptors. Returns stdout, stderr and the exit code as
// text.
std::string by_shell(const std::string& setting, const std::string& words) {
  const std::string line = setting + "; { " RUEDA_HVDRUN " " + words + "; }; echo \"code $?\" >&9";
  const std::string command = "bash -c '" + line + "' 9>&1 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text.push_back(static_cast<char>(c));
  return text;
}

}  // namespace

TEST_CASE("a working folder that was removed is an error before anything starts") {
  const std::string text = by_shell("mkdir /tmp/rueda-gone.$$; cd /tmp/rueda-gone.$$; rmdir /tmp/rueda-gone.$$",
                                    "-np 2 -H localhost:1,nowhere:1 echo ran");
  CHECK(
      text ==
      "hvdrun: cannot find out the working folder, in which the ranks should run: No such file or directory\ncode 1\n");
}

TEST_CASE("hvdrun notes flags without effect and refuses a key file that does not exist") {
  HvdrunProcess unused({"--tcp", "true"}, {});
  CHECK(unused.wait() == 2);  // no number of ranks
  CHECK_THAT(unused.err(), Catch::Matchers::Contains("--tcp have no effect without --mpi"));
  HvdrunProcess key({"-i", "/nowhere", "-np", "1", "true"});
  CHECK(key.wait() == 2);
  CHECK(key.last_error() == "hvdrun: --ssh-identity-file /nowhere: No such file or directory");
  HvdrunProcess home(
      {"-i", "~/.ssh/nowhere", "-np", "1", "true"});  // ssh expands the name, so hvdrun does not check it
  CHECK(home.wait() == 0);
}

TEST_CASE("descriptors 0 to 2 may be closed") {
  for (const std::string closed : {"<&- >&-", "<&- >&- 2>&-", ">&- 2>&-", "<&-"}) {
    INFO(closed);
    CHECK(by_shell(":", "-np 2 true " + closed).ends_with("code 0\n"));
    CHECK(by_shell(":", "-np 2 false " + closed).ends_with("code 1\n"));
  }
}

TEST_CASE("with too few descriptors hvdrun fails with a sentence at every step", "[few]") {
  int succeeded = 0, failed = 0;
  for (int limit = 4; limit <= 40; limit += 2) {
    const std::string text = by_shell("ulimit -n " + std::to_string(limit), "-np 2 true 9>&- <&-");
    INFO(limit << ": " << text);
    const bool well = text.ends_with("code 0\n");
    // With the very fewest the shell cannot print the code any more, but hvdrun has printed its sentence.
    const bool told = text.ends_with("code 1\n") || text.find("bash: ") != std::string::npos;
    const bool in_words = text.find("hvdrun: ") != std::string::npos && told;
    const bool no_rank = text.find(" was not started: ") != std::string::npos && text.ends_with("code 126\n");
    const bool no_program = text.ends_with("code 127\n");  // the loader had no descriptor for a library
    CHECK((well || in_words || no_rank || no_program));
    ++(well ? succeeded : failed);
    CHECK(text.find("terminate called") == std::string::npos);
    CHECK(text.find("pid 0") == std::string::npos);
  }
  CHECK(failed > 3);
  CHECK(succeeded > 0);  // the limits reach from too few to enough
}

TEST_CASE("hvdrun exits with a failure if output cannot be written") {
  const std::string full = by_shell(":", "-np 2 echo hello >/dev/full");
  INFO(full);
  CHECK(full.find("hvdrun: output was lost: stdout: No space left on device") != std::string::npos);
  CHECK(full.ends_with("code 1\n"));
  CHECK(by_shell(":", "-np 2 sh -c \"echo hello; exit 3\" >/dev/full").ends_with("code 3\n"));
  const std::string at_once = by_shell(":", "-np 1 seq 500000 >/dev/full");
  const std::string loss = "hvdrun: output is being lost: stdout: No space left on device; the job goes on";
  INFO(at_once);
  CHECK(at_once.find(loss) != std::string::npos);
  CHECK(at_once.find(loss) == at_once.rfind(loss));
  CHECK(by_shell(":", "-np 2 sh -c \"echo hello >&2\" 2>/dev/full").ends_with("code 1\n"));
  for (const char* words : {"--help", "--version", "--check-build", "--completion bash"}) {
    CHECK(by_shell(":", std::string(words) + " >/dev/full").ends_with("code 1\n"));
  }
}
