// Jobs that mpirun starts, without hvdrun.
#include <catch2/catch.hpp>
#include <regex>

#include "tests/ops/mpi/mpirun.h"

using namespace rueda::test;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

const Words kAllMpi = {"RUEDA_CONTROLLER=mpi", "RUEDA_CPU_OPERATIONS=mpi"};

Words with(Words all, const std::string& one) {
  all.push_back(one);
  return all;
}

void check_sums(int ranks, Hosts hosts, const Words& variables) {
  const CommandResult run = mpirun(ranks, hosts, variables, {"mpi_api_rank", "sum"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  CHECK(count_of(run.out, " of " + std::to_string(ranks) + ", local ") == 2 * ranks);
  CHECK(count_of(run.out, "sums are right") == 2 * ranks);
}

}  // namespace

TEST_CASE("a job under mpirun sums, shuts down and sums again, whatever of it goes over MPI") {
  check_sums(2, Hosts::kTogether, {});
  check_sums(2, Hosts::kTogether, kAllMpi);
  for (const Hosts hosts : {Hosts::kAlone, Hosts::kPairs}) {
    check_sums(4, hosts, kAllMpi);
    check_sums(4, hosts, {"RUEDA_CONTROLLER=mpi"});
    check_sums(4, hosts, {"RUEDA_CPU_OPERATIONS=mpi"});
    check_sums(4, hosts, with(kAllMpi, "RUEDA_CONTROL_TREE=1"));
  }
}

TEST_CASE("algorithms that a setting names run over MPI") {
  for (const std::string algorithm : {"direct", "ring", "doubling", "hierarchical", "mpi_native"}) {
    INFO(algorithm);
    check_sums(4, Hosts::kPairs, with(kAllMpi, "RUEDA_ALLREDUCE_ALGORITHM=" + algorithm));
  }
}

TEST_CASE("a tensor of 2^31 + 1001 elements crosses MPI right to the last one", "[.][long]") {
  for (const std::string algorithm : {"auto", "ring", "mpi_native"}) {
    const CommandResult run =
        mpirun(2, Hosts::kAlone, with(kAllMpi, "RUEDA_ALLREDUCE_ALGORITHM=" + algorithm), {"mpi_api_rank", "large"});
    INFO(algorithm << "\n" << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, "2^31 + 1001 elements are right") == 2);
  }
}

TEST_CASE("where MPI does not move the data MPI brings no algorithm of its own") {
  const CommandResult run =
      mpirun(2, Hosts::kTogether, {"RUEDA_CONTROLLER=mpi", "RUEDA_ALLREDUCE_ALGORITHM=mpi_native"}, {"mpi_api_rank"});
  CHECK(run.exit_code != 0);
  CHECK_THAT(
      run.err,
      Contains("RUEDA_ALLREDUCE_ALGORITHM=mpi_native: there is no such allreduce algorithm; choose auto or one of"));
}

TEST_CASE("a rank that exits without a shutdown leaves MPI in order") {
  const CommandResult run = mpirun(2, Hosts::kAlone, kAllMpi, {"mpi_api_rank", "leave"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  CHECK(count_of(run.out, " leaves") == 2);
}

TEST_CASE("a rank's death ends the job, and the others say who died") {
  const CommandResult run = mpirun(3, Hosts::kTogether, kAllMpi, {"mpi_api_rank", "last"});
  INFO(run.out << run.err);
  CHECK(run.exit_code != 0);
  CHECK(std::regex_search(run.err, std::regex("rank 2 \\(host host, pid [0-9]+\\) died: ")));
}

TEST_CASE("an application that uses MPI itself goes on using it") {
  for (const std::string mode : {"multiple", "finalize"}) {
    const CommandResult run = mpirun(2, Hosts::kTogether, kAllMpi, {"mpi_application", mode});
    INFO(mode << "\n" << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, "both are right") == 2);
  }
  const CommandResult apart = mpirun(3, Hosts::kAlone, kAllMpi, {"mpi_application", "multiple"});
  INFO(apart.out << apart.err);
  CHECK(apart.exit_code == 0);
  CHECK(count_of(apart.out, "both are right") == 3);
}

TEST_CASE("MPI that the application initialised for too few threads is refused with both levels") {
  const CommandResult run = mpirun(2, Hosts::kTogether, kAllMpi, {"mpi_application", "funneled"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  CHECK(count_of(run.out, "the application has initialised MPI with MPI_THREAD_FUNNELED; MPI_THREAD_MULTIPLE") == 2);
}

TEST_CASE("a job may be the ranks of a communicator, or some ranks of it") {
  const CommandResult halves = mpirun(4, Hosts::kAlone, kAllMpi, {"mpi_application", "comm"});
  INFO(halves.out << halves.err);
  CHECK(halves.exit_code == 0);
  CHECK(count_of(halves.out, " of 2: both are right") == 4);
  const CommandResult some = mpirun(3, Hosts::kTogether, {}, {"mpi_application", "ranks"});
  INFO(some.out << some.err);
  CHECK(some.exit_code == 0);
  CHECK(count_of(some.out, " of 2: both are right") == 2);
  CHECK_THAT(some.out, Contains("2: rueda_init: rank 2 of the communicator is not among the job's ranks [1, 0]"));
}

TEST_CASE("wrong lists and communicators are refused with what is wrong") {
  const CommandResult run = mpirun(1, Hosts::kTogether, {}, {"mpi_application", "wrong"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("2: rueda_init: ranks [0, 99] are not all among the 1 of the communicator"));
  CHECK_THAT(run.out, Contains("2: rueda_init: ranks [0, 0] has one twice"));
  CHECK_THAT(run.out, Contains("2: rueda_init: the communicator is MPI_COMM_NULL"));
  CHECK_THAT(run.out, Contains("2: options: rank and size are given, but MPI shall provide them"));
}

TEST_CASE("a launcher that MPI does not know is named, with what it says") {
  const auto alone = [](const Words& variables) {
    Words words = {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.push_back(std::string(RUEDA_TEST_BIN) + "/mpi_api_rank");
    return run_command(words);
  };
  const auto by_hand = alone(with(kAllMpi, "RUEDA_RANK=0"));
  CHECK_THAT(by_hand.err, Contains("RUEDA_SIZE is not set, but RUEDA_RANK (of hvdrun) is"));
  const auto hvdrun = alone({"RUEDA_CONTROLLER=mpi", "RUEDA_RANK=0", "RUEDA_SIZE=2"});
  CHECK_THAT(hvdrun.err,
             Contains("reports that it started 1 rank, but the variables of hvdrun say 2; start the job with the "
                      "mpirun of this MPI, or with hvdrun --mpi"));
  const auto other = alone({"RUEDA_CONTROLLER=mpi", "PMI_RANK=1", "PMI_SIZE=4"});
  CHECK_THAT(other.err, Contains("reports that it started 1 rank, but the variables of PMI say 4"));
  const auto slurm =
      alone({"RUEDA_CONTROLLER=mpi", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4"});
  CHECK_THAT(slurm.err, Contains("reports that it started 1 rank, but SLURM_STEP_NUM_TASKS is 4; start the job with "
                                 "srun --mpi=pmix"));
}
