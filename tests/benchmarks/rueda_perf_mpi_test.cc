// The peer, built only if there is an MPI.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/benchmarks/rueda_perf_run.h"
#include "tests/launcher/hvdrun_process.h"
#include "tests/support/rank_processes.h"

namespace {

// The files that an MPI and its peer leave unless rueda-perf tidies up.
std::vector<std::string> leftovers() {
  std::vector<std::string> found;
  for (const std::filesystem::path folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      for (const char* prefix : {"vader_segment.", "ompi.", "rueda-perf-"}) {
        if (name.starts_with(prefix)) found.push_back(entry.path().string());
      }
    }
  }
  return found;
}

void wait_for_the_peer(const rueda::core::launcher::HvdrunProcess& run) {
  for (const auto deadline = rueda::test::patience(); !deadline.passed();) {
    for (const auto& process : run.processes()) {
      if (process.name == "rueda-perf-mpi") return;
    }
  }
  FAIL("the peer never ran");
}

}  // namespace

TEST_CASE("the peer's entry follows ours, with its flags") {
  const auto run = rueda::test::run_perf(2, "allreduce --bytes 64K --iters 3 --warmup 1 --in-place --peer mpi");
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const auto& entries = run.json.at("results");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].at("algorithm") == "shm_one_shot");
  CHECK(entries[1].at("algorithm") == "mpi");
  CHECK(entries[1].at("bytes") == entries[0].at("bytes"));
  CHECK(entries[1].at("ranks") == 2);
  CHECK(entries[1].at("correct") == true);
  CHECK(entries[1].at("p50_us").get<double>() > 0);
  CHECK(entries[1].at("flags").get<std::string>().find("mpi_yield_when_idle=") == 0);
  CHECK(run.json.at("peer").at("name") == "mpi");
}

TEST_CASE("a signal to hvdrun while the peer runs ends it, and nothing of it is left") {
  const auto before = leftovers();
  for (const int signal : {SIGINT, SIGTERM}) {
    INFO("signal " << signal);
    rueda::core::launcher::HvdrunProcess run({"-np", "2", RUEDA_TEST_BIN "/rueda-perf", "allreduce", "--bytes", "64K",
                                              "--iters", "20000", "--warmup", "1", "--in-place", "--peer", "mpi"});
    wait_for_the_peer(run);
    run.send(signal);
    CHECK(run.wait() == 128 + signal);
    INFO(run.err());
    run.wait_for_all_to_end();
    CHECK(leftovers() == before);
  }
}
