// The peer, where there is one.
#include <catch2/catch.hpp>

#include "tests/benchmarks/rueda_perf_run.h"

TEST_CASE("the peer's row follows ours, with its flags") {
  const auto run = rueda::test::run_perf(2, "allreduce --bytes 64K --iters 3 --warmup 1 --in-place --peer mpi");
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const auto& rows = run.json.at("results");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("algorithm") == "auto");
  CHECK(rows[1].at("algorithm") == "mpi");
  CHECK(rows[1].at("bytes") == rows[0].at("bytes"));
  CHECK(rows[1].at("ranks") == 2);
  CHECK(rows[1].at("correct") == true);
  CHECK(rows[1].at("p50_us").get<double>() > 0);
  CHECK(rows[1].at("flags").get<std::string>().find("mpi_yield_when_idle=") == 0);
  CHECK(run.json.at("peer").at("name") == "mpi");
}
