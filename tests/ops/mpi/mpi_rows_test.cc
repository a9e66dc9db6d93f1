// Rows over MPI's point-to-point, and over its collectives, with every result checked by the ranks.
#include <catch2/catch.hpp>

#include "tests/ops/mpi/mpirun.h"

using namespace rueda::test;

TEST_CASE("every row over channels, and MPI's own collectives, give the formula's results over MPI") {
  for (const int size : {2, 3, 4}) {
    const CommandResult run = mpirun(size, Hosts::kTogether, {}, {"mpi_rows_rank", RUEDA_TEST_MPI_PLUGIN});
    INFO("np " << size << "\n" << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, " of " + std::to_string(size) + ": 14 rows, ") == size);
  }
}
