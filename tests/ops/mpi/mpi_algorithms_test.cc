// Algorithms over MPI's point-to-point, and over its collectives, with every result checked by the ranks.
#include <catch2/catch.hpp>

#include "tests/ops/mpi/mpirun.h"

using namespace rueda::test;

TEST_CASE("every algorithm over channels, and MPI's own collectives, give the formula's results over MPI") {
  for (const int size : {2, 3, 4}) {
    const CommandResult run = mpirun(size, Hosts::kTogether, {}, {"mpi_algorithms_rank", RUEDA_TEST_MPI_PLUGIN});
    INFO("np " << size << "\n" << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, " of " + std::to_string(size) + " ran ") == size);
    for (const char* known :
         {" direct ", " ring ", " broadcast_tree ", " direct_scatter ", " mpi_native mpi_native, "}) {
      INFO(known);
      CHECK(count_of(run.out, known) == size);
    }
  }
}
