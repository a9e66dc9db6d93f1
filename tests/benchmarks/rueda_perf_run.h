#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace rueda::test {

/// What a run of rueda-perf left: words of `flags` need no quoting.
struct PerfRun {
  int exit_code = -1;
  std::string output;           ///< stdout and stderr
  nlohmann::ordered_json json;  ///< what it wrote, null where nothing
};

/// A file of this test process.
inline std::filesystem::path perf_result_file() {
  return std::filesystem::temp_directory_path() / ("rueda-perf-test-" + std::to_string(::getpid()) + ".json");
}

/// Runs it with `ranks` ranks under hvdrun, or without where `ranks` is 0. Blocks until it has ended.
inline PerfRun run_perf(int ranks, const std::string& flags, const std::filesystem::path& file = perf_result_file()) {
  const std::string bin = RUEDA_TEST_BIN;
  std::string command = bin + "/rueda-perf " + flags + " --json " + file.string() + " 2>&1";
  const std::string count = std::to_string(ranks);
  if (ranks > 0) command = bin + "/hvdrun -np " + count + " -H localhost:" + count + " " + command;
  command = "RUEDA_AUTOTUNE=0 " + command;  // tests look at which algorithm has run
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no pipe for " + command);
  PerfRun result;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, got);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream written(file);
  if (written) result.json = nlohmann::ordered_json::parse(written, nullptr, false);
  std::error_code ignored;  // there may be none
  std::filesystem::remove(file, ignored);
  return result;
}

}  // namespace rueda::test
