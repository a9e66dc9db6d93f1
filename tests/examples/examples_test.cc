// Runs the examples as a user does, under hvdrun.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/examples/train_digits_run.h"

namespace {

struct Run {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};

// Runs a shell command line. Collects both output streams.
Run run(const std::string& command) {
  Run result;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) result.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Run hvdrun(int ranks, const std::string& program) {
  return run(std::string(RUEDA_TEST_BIN) + "/hvdrun -np " + std::to_string(ranks) +
             " -H localhost:" + std::to_string(ranks) + " " + RUEDA_TEST_BIN + "/" + program);
}

void expect_trained(int ranks, const std::string& flags) {
  const std::string epochs = std::to_string(rueda::test::kEpochs);
  const Run result = hvdrun(ranks, "train_digits --epochs " + epochs + flags);
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK(rueda::test::all_matches(result.output, "epoch ([0-9]+)/" + epochs).size() == rueda::test::kEpochs);
  const auto accuracy = rueda::test::all_matches(result.output, "test accuracy ([0-9.]+) \\([0-9]+ of 360");
  REQUIRE(accuracy.size() == 1);
  CHECK(std::stod(accuracy[0]) >= 0.95);
  const auto hashes = rueda::test::all_matches(result.output, "rank [0-9]+: parameters ([0-9a-f]{16})");
  CHECK(hashes.size() == static_cast<size_t>(ranks));
  CHECK(std::set<std::string>(hashes.begin(), hashes.end()).size() == 1);
}

}  // namespace

TEST_CASE("the first programs add up the ranks' numbers") {
  for (const char* program : {"hello_allreduce", "hello_allreduce_cpp"}) {
    const Run result = hvdrun(3, program);
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(rueda::test::all_matches(result.output, "rank ([0-9]) of 3: the ranks add up to 3").size() == 3);
  }
}

TEST_CASE("a rank that may use one core only warns once") {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    WARN("this machine has one core only");
    return;
  }
  const std::string bin = RUEDA_TEST_BIN;
  const Run confined = run(bin + "/hvdrun -np 2 -H localhost:2 taskset -c 0 " + bin + "/hello_allreduce");
  INFO(confined.output);
  CHECK(confined.exit_code == 0);
  CHECK(rueda::test::all_matches(confined.output, "rank ([0-9]) may use one core only, 0 of [0-9]+: .*--bind-to none")
            .size() == 2);
  CHECK(hvdrun(2, "hello_allreduce").output.find("one core") == std::string::npos);
}

TEST_CASE("programs that a shell runs one after the other as one rank all join the job") {
  const std::string hello = std::string(RUEDA_TEST_BIN) + "/hello_allreduce";
  const Run result =
      run(std::string(RUEDA_TEST_BIN) + "/hvdrun -np 2 -H localhost:2 sh -c '" + hello + "; " + hello + "'");
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK(rueda::test::all_matches(result.output, "rank ([0-9]) of 2: the ranks add up to 1").size() == 4);
}

TEST_CASE(
    "the error names a program between hvdrun and rank that closes the key, and a job starts without a time limit") {
  const std::string hello = RUEDA_TEST_BIN "/hello_allreduce";
  const Run between =
      run(RUEDA_TEST_BIN "/hvdrun -np 2 python3 -c \"import subprocess; subprocess.check_call(['" + hello + "'])\"");
  INFO(between.output);
  CHECK(between.exit_code != 0);
  CHECK(between.output.find("is closed: a program between the launcher and this one did not pass it on") !=
        std::string::npos);
  CHECK(run(RUEDA_TEST_BIN "/hvdrun --start-timeout 0 -np 2 " + hello).exit_code == 0);
}

TEST_CASE("ranks that are still joining learn which rank died meanwhile") {
  const std::string hello = std::string(RUEDA_TEST_BIN) + "/hello_allreduce";
  const Run result = run(std::string(RUEDA_TEST_BIN) +
                         "/hvdrun -np 3 -H localhost:3 sh -c 'test $RUEDA_RANK = 1 && exit 3; exec " + hello + "'");
  INFO(result.output);
  CHECK(result.exit_code == 3);
  CHECK(rueda::test::all_matches(
            result.output, "\\[([02])\\]<stderr>:.*rank 1 \\(host localhost, pid [0-9]+\\) died: exited with code 3")
            .size() == 2);
}

TEST_CASE("two jobs on one host at the same time do not mix") {
  const std::string job =
      std::string(RUEDA_TEST_BIN) + "/hvdrun -np 2 -H localhost:2 " + RUEDA_TEST_BIN + "/event_loop";
  const Run both = run("{ " + job + " & " + job + "; first=$?; wait $! && exit $first; }");
  INFO(both.output);
  CHECK(both.exit_code == 0);
  CHECK(rueda::test::all_matches(both.output, "(rank [0-9] of 2: 400 sums finished)").size() == 4);
}

TEST_CASE("a program's own event loop gets the completions of all operations") {
  for (const int ranks : {1, 2}) {
    const Run result = hvdrun(ranks, "event_loop");
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(rueda::test::all_matches(result.output, "(rank [0-9] of [0-9]: 400 sums finished)").size() ==
          static_cast<size_t>(ranks));
  }
}

TEST_CASE("a Rust program without a crate adds up the ranks' numbers") {
  const std::string program = std::string(RUEDA_TEST_BIN) + "/rust_allreduce";
  if (access(program.c_str(), X_OK) != 0) {
    WARN("not built: there is no /usr/bin/rustc, or this build is sanitized");
    return;
  }
  const Run result = hvdrun(2, "rust_allreduce");
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK(rueda::test::all_matches(result.output, "rank ([0-9]) of 2: the ranks add up to 5").size() == 2);
}

TEST_CASE("a first program without hvdrun is a job of one rank") {
  const Run result = run(std::string(RUEDA_TEST_BIN) + "/hello_allreduce");
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK(result.output == "rank 0 of 1: the ranks add up to 0\n");
}

TEST_CASE("train_digits reaches an accuracy of 0.95 with equal parameters on all ranks") {
  for (const int ranks : {1, 2, 4}) {
    if (rueda::core::kThorough || ranks == 4) expect_trained(ranks, "");
  }
}

TEST_CASE("train_digits reaches an accuracy of 0.95 with gradients sent as 16-bit floats") {
  expect_trained(2, " --fp16");
}

TEST_CASE("train_digits names wrong flags and unreadable data") {
  const std::string program = std::string(RUEDA_TEST_BIN) + "/train_digits ";
  const std::pair<const char*, const char*> cases[] = {{"--epochs 0", "--epochs '0'"},
                                                       {"--epochs many", "--epochs 'many'"},
                                                       {"--epochs", "--epochs needs a value"},
                                                       {"--speed 9", "'--speed'"}};
  for (const auto& [flags, words] : cases) {
    const Run result = run(program + flags);
    CHECK(result.exit_code == 2);
    CHECK(result.output.find(words) != std::string::npos);
  }
  const Run missing = run(program + "--data /nowhere/digits.csv.gz");
  CHECK(missing.exit_code == 1);
  CHECK(missing.output.find("/nowhere/digits.csv.gz") != std::string::npos);
  const Run wrong = run(program + "--data " + RUEDA_TEST_SOURCE);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.output.find("line 1") != std::string::npos);
}
