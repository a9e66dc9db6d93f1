// Jobs that mpirun starts over ssh on two hosts of the netlab.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "tests/ops/mpi/mpirun.h"
#include "tests/support/netlab.h"

using namespace rueda::test;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

constexpr const char* kNetwork = "--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0";

/// `hvdrun --mpi` on the first host, two ranks on each.
CommandResult hvdrun_mpi(const NetLab& lab, const Words& variables, const Words& program) {
  Words words = lab.on(0);
  words.push_back("env");
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), {std::string(RUEDA_TEST_BIN) + "/hvdrun", "--mpi", "-H", "node1:2,node2:2", "--mpi-args",
                             kNetwork, std::string(RUEDA_TEST_BIN) + "/" + program.front()});
  words.insert(words.end(), program.begin() + 1, program.end());
  return run_command(words);
}

void check_sums(const CommandResult& run) {
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string local = std::to_string(rank % 2), host = std::to_string(rank / 2);
    CHECK(count_of(run.out, "<stdout>:rank " + std::to_string(rank) + " of 4, local " + local + " of 2, cross " + host +
                                " of 2: sums are right") == 2);
  }
}

}  // namespace

TEST_CASE("hvdrun --mpi starts ranks on two hosts that talk over MPI alone, flat and by two levels") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  for (const std::string algorithm : {"auto", "ring", "hierarchical", "mpi_native"}) {
    INFO(algorithm);
    check_sums(hvdrun_mpi(lab, {"RUEDA_ALLREDUCE_ALGORITHM=" + algorithm}, {"mpi_api_rank", "sum"}));
  }
}

TEST_CASE("mpirun alone brings ranks of two hosts together, who then talk over TCP") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  Words words = lab.on(0);
  words.insert(words.end(),
               {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "sh", "-c",
                std::string("exec mpirun --tag-output -np 4 -H node1:2,node2:2 --bind-to none --map-by slot ") +
                    kNetwork + " " + RUEDA_TEST_BIN + "/mpi_api_rank sum"});
  check_sums(run_command(words));
}

TEST_CASE("the commands of the guide start their jobs as they stand") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  std::ifstream guide(RUEDA_TEST_GUIDE);
  const std::regex command("^((?:mpirun|hvdrun --mpi) .*?-np ([0-9]+) .*?) *(#.*)?$");
  int commands = 0;
  for (std::string line; std::getline(guide, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, command)) continue;
    ++commands;
    const std::string program = std::string(RUEDA_TEST_BIN) + "/mpi_api_rank";
    const std::string text = std::regex_replace(found[1].str(), std::regex("\\./train"), program);
    Words words = lab.on(0);
    words.insert(words.end(), {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                               "OMPI_MCA_btl_tcp_if_include=eth0", "OMPI_MCA_oob_tcp_if_include=eth0",
                               "OMPI_MCA_rmaps_base_oversubscribe=1", "sh", "-c",
                               std::string("PATH=") + RUEDA_TEST_BIN + ":$PATH; " + text});
    const CommandResult run = run_command(words);
    INFO(text << "\n" << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(count_of(run.out, " of " + found[2].str() + ", local ") == 2 * std::stoi(found[2].str()));
  }
  CHECK(commands >= 6);
}

TEST_CASE("a rank's death on another host ends the job on both, and its neighbour says who died") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const CommandResult run = hvdrun_mpi(lab, {}, {"mpi_api_rank", "last"});
  INFO(run.out << run.err);
  CHECK(run.exit_code != 0);
  CHECK(std::regex_search(run.err, std::regex("rank 3 \\(host node2, pid [0-9]+\\) died: ")));
  for (int host = 0; host < 2; ++host) CHECK(lab.process_named(host, "mpi_api_rank") == -1);
}
