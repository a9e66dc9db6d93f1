// rueda-build-mpi, and what happens if plug-in and library are of two MPIs. Skipped if Debian's MPICH is missing.
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

#include "tests/ops/mpi/mpirun.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::test;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

const std::string kBin = RUEDA_TEST_BIN;
constexpr const char* kMpicc = "/usr/bin/mpicc.mpich";
constexpr const char* kMpirun = "/usr/bin/mpirun.mpich";

/// A user's folder, with MPICH's mpicc first in the PATH.
class Home {
 public:
  Home() {
    fs::create_directory(folder_.file("bin"));
    fs::create_symlink(kMpicc, folder_.file("bin/mpicc"));
  }
  std::string plugin() const { return folder_.file(".local/lib/rueda/librueda_mpi.so"); }
  CommandResult run(const Words& words) const {
    Words all = {"env", "HOME=" + folder_.path(), "PATH=" + folder_.file("bin") + ":/usr/bin:/bin"};
    all.insert(all.end(), words.begin(), words.end());
    return run_command(all);
  }

 private:
  TemporaryFolder folder_;
};

/// One for all cases, with the plug-in in it: building it takes longer than they do.
const Home& home_with_plugin() {
  static const Home home;
  static const CommandResult built = home.run({kBin + "/rueda-build-mpi"});
  INFO(built.out << built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(built.out == "export RUEDA_MPI_PLUGIN=" + home.plugin() + "\n");
  CHECK_THAT(built.err, Contains("[X] mpi") && Contains("MPICH 4."));
  return home;
}

void skip_without_mpich() {
  if (fs::exists(kMpicc) && fs::exists(kMpirun)) return;
  std::printf("skipped: there is no %s\n", kMpicc);
  std::exit(77);
}

}  // namespace

TEST_CASE("rueda-build-mpi builds a plug-in for the PATH's MPI into the user's folder, and jobs run with it") {
  skip_without_mpich();
  const Home& home = home_with_plugin();
  const std::string named = "RUEDA_MPI_PLUGIN=" + home.plugin();
  for (const std::string algorithm : {"auto", "ring", "mpi_native"}) {
    INFO(algorithm);
    const CommandResult run = home.run({"env", named, "RUEDA_CONTROLLER=mpi", "RUEDA_CPU_OPERATIONS=mpi",
                                        "RUEDA_ALLREDUCE_ALGORITHM=" + algorithm, kMpirun, "-np", "2", "sh", "-c",
                                        "RUEDA_HOSTNAME=host$PMI_RANK exec \"$0\" sum", kBin + "/mpi_api_rank"});
    INFO(run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, "sums are right") == 4);
  }
}

TEST_CASE("a process may begin and end as often as it likes, and leaves nothing to MPI", "[.][long]") {
  skip_without_mpich();
  const Home& home = home_with_plugin();
  // MPICH has room for about 2,000 communicators.
  const CommandResult run = home.run({"env", "RUEDA_MPI_PLUGIN=" + home.plugin(), "RUEDA_CONTROLLER=mpi", kMpirun,
                                      "-np", "2", kBin + "/mpi_api_rank", "again", "1100"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  CHECK(count_of(run.out, "1100 times") == 2);
  CHECK_THAT(run.err, !Contains("leaked"));
}

TEST_CASE("a plug-in of one MPI in a process of another is refused by name and version of both") {
  skip_without_mpich();
  const Home& home = home_with_plugin();
  const CommandResult run = mpirun(1, Hosts::kTogether, {"RUEDA_CONTROLLER=mpi", "RUEDA_MPI_PLUGIN=" + home.plugin()},
                                   {"mpi_application", "multiple"});
  INFO(run.out << run.err);
  CHECK(run.exit_code != 0);
  CHECK_THAT(run.err, Contains("the MPI plug-in was built for MPICH 4.") && Contains("and this process has Open MPI "));
}

TEST_CASE("the plug-in for Open MPI in a process of MPICH is refused likewise, though MPICH says far more of itself") {
  skip_without_mpich();
  const Home home;
  const CommandResult run = home.run({"env", "LD_PRELOAD=libmpich.so.12", "RUEDA_CONTROLLER=mpi", "RUEDA_RANK=0",
                                      "RUEDA_SIZE=1", kBin + "/mpi_api_rank", "sum"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.err, Contains("the MPI plug-in was built for Open MPI ") && Contains("and this process has MPICH 4."));
}

TEST_CASE("ranks that another MPI's mpirun started are told so") {
  skip_without_mpich();
  const Home home;
  const CommandResult run = home.run({"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                      "RUEDA_CONTROLLER=mpi", kMpirun, "-np", "2", kBin + "/mpi_api_rank"});
  INFO(run.out << run.err);
  CHECK(run.exit_code != 0);
  CHECK_THAT(run.err, Contains("reports that it started 1 rank, but the variables of PMI say 2"));
}

TEST_CASE("rueda-build-mpi says what it lacks") {
  const auto run = [](const Words& words) { return run_command(words); };
  const std::string tools = fs::temp_directory_path() / ("rueda-tools-" + std::to_string(::getpid()));
  fs::create_directory(tools);
  for (const std::string tool : {"bash", "dirname", "readlink"}) {
    fs::create_symlink("/usr/bin/" + tool, fs::path(tools) / tool);
  }
  const auto bare = run({"env", "PATH=" + tools, "bash", kBin + "/rueda-build-mpi"});
  fs::remove_all(tools);
  CHECK(bare.exit_code == 1);
  CHECK_THAT(bare.err, Contains("there is no mpicc in the PATH"));
  CHECK_THAT(run({kBin + "/rueda-build-mpi", "--fast"}).err, Contains("there is no flag --fast"));
  CHECK_THAT(run({kBin + "/rueda-build-mpi", "-o"}).err, Contains("-o needs a file behind it"));
  const auto none = run({"env", "CXX=no-such-compiler", kBin + "/rueda-build-mpi"});
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err, Contains("there is no compiler no-such-compiler; CXX names another one"));
}
