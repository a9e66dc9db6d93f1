// `hvdrun --dump` of a job that hangs.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;

namespace {

HvdrunProcess dump_of(pid_t pid, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words = {"--dump", std::to_string(pid)};
  words.insert(words.end(), flags.begin(), flags.end());
  return HvdrunProcess(words);
}

/// Waits until all three ranks hang as the example means them to.
void await_hang(HvdrunProcess& job) {
  for (const std::string rank : {"0", "1", "2"}) job.read_until("rank " + rank + ": two layers are reduced");
}

}  // namespace

TEST_CASE(
    "hvdrun --dump names the operation that some ranks wait for, and the rank that left it out with its activity") {
  HvdrunProcess job({"-np", "3", RUEDA_MISSING_TENSOR});
  await_hang(job);
  const auto file = std::filesystem::temp_directory_path() / ("rueda-dump-test-" + std::to_string(getpid()));
  std::string said;
  const auto says = [&said](const char* words) { return said.find(words) != std::string::npos; };
  // Until rank 2 has submitted layer3 instead, and has answered in its second, which may take a busy machine longer.
  while (!says("first divergence") || !says("layer3") || says("did not answer within")) {
    HvdrunProcess dump = dump_of(job.pid(), {"--dump-file", file.string()});
    REQUIRE(dump.wait() == 0);
    said = dump.out();
  }
  CHECK_THAT(said, Contains("first divergence: allreduce \"layer2\" (f32, 1000 elements) was submitted by "
                            "ranks 0-1, not by rank 2; it has waited for "));
  CHECK_THAT(said, Contains("has allreduce \"layer3\" (f32, 1000 elements) instead, proposed for") &&
                       Contains("it says: missing_tensor.c, layer3"));
  std::ifstream stream(file);
  const auto merged = nlohmann::ordered_json::parse(stream);
  CHECK(merged.at("ranks").size() == 3);
  CHECK(merged.at("ranks").at(2).at("operations").back().at("name") == "layer3");
  std::filesystem::remove(file);
  job.send(SIGTERM);
  CHECK(job.wait() == 128 + SIGTERM);
}

TEST_CASE("hvdrun --dump says that a stopped rank gave no record") {
  // The stop ends the job after three fifths of the timeout, and the dump waits for 5 s.
  HvdrunProcess job({"-np", "3", "--peer-timeout-seconds", "60", RUEDA_MISSING_TENSOR});
  await_hang(job);
  pid_t stopped = 0;
  for (const MarkedProcess& process : job.processes()) {
    if (process.name == "missing_tensor") stopped = process.pid;
  }
  REQUIRE(stopped != 0);
  REQUIRE(kill(stopped, SIGSTOP) == 0);
  HvdrunProcess dump = dump_of(job.pid());
  CHECK(dump.wait() == 0);
  CHECK_THAT(dump.out(), Contains("no flight record came from rank "));
  kill(stopped, SIGKILL);
  CHECK(job.wait() != 0);
}

TEST_CASE("hvdrun --dump of a process that is no hvdrun is an error that names the pid") {
  HvdrunProcess dump = dump_of(getpid());
  CHECK(dump.wait() == 1);
  CHECK_THAT(dump.err(), Contains("no hvdrun with pid " + std::to_string(getpid())));
}

TEST_CASE("hvdrun --dump of an hvdrun that is stopped says so in time, and an unread FIFO takes no record") {
  HvdrunProcess job({"-np", "3", RUEDA_MISSING_TENSOR});
  await_hang(job);
  const rueda::test::TemporaryFolder folder;
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  HvdrunProcess to_pipe = dump_of(job.pid(), {"--dump-file", folder.file("pipe")});
  CHECK(to_pipe.wait() == 1);
  CHECK_THAT(to_pipe.err(),
             Contains("the flight record cannot be written to " + folder.file("pipe") + ": it is a FIFO"));
  job.send(SIGSTOP);
  HvdrunProcess dump = dump_of(job.pid());
  CHECK(dump.wait() == 1);
  CHECK_THAT(dump.err(), Contains("hvdrun (pid " + std::to_string(job.pid()) + ") did not answer within 15 s"));
  job.send(SIGCONT);
  job.send(SIGTERM);
  CHECK(job.wait() == 128 + SIGTERM);
}
