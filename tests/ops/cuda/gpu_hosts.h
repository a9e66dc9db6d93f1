#pragma once
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {

/// Two hosts, and a folder in which the stand-in for NCCL connects ranks of both.
class GpuHosts {
 public:
  /// Runs the ranks under `hvdrun` with these words, on `-H hosts`.
  CommandResult run(const std::string& hosts, const std::vector<std::string>& variables,
                    const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = lab_.on(0);
    words.insert(words.end(), {"env", "STANDIN_CUDA_DEVICES=3", "STANDIN_NCCL_FOLDER=" + folder_.path(),
                               "RUEDA_LOG_LEVEL=info", "NCCL_NET=Socket"});
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {RUEDA_TEST_HVDRUN, "-H", hosts});
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(),
                 {std::filesystem::read_symlink("/proc/self/exe").string(), "rank: sums on GPUs of several hosts"});
    return run_command(words);
  }
  /// What the first host has sent to the second.
  long long bytes_sent() const { return std::stoll(lab_.shell(0, "awk '/eth0:/ {print $10}' /proc/net/dev")); }

 private:
  const NetLab lab_{{.hosts = 2}};
  const TemporaryFolder folder_;
};

/// Expects each rank to say that its sums are right, and two communicators for each if it takes two levels.
inline void expect_right(const CommandResult& run, int ranks, int communicators) {
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK_THAT(run.out, Catch::Matchers::Contains("rank " + std::to_string(rank) + ": sums are right, by " +
                                                  std::to_string(communicators) + " communicators"));
  }
  CHECK((run.err.find("take two levels") != std::string::npos) == (communicators == 2));
}

}  // namespace rueda::test
