// Jobs on two nodes of a real Slurm, with hvdrun and without it (tests/support/slurmlab.h).
#include <catch2/catch.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/namespaces.h"
#include "tests/support/slurmlab.h"

using rueda::core::launcher::HvdrunProcess;
using rueda::test::SlurmLab;
using Words = std::vector<std::string>;
using Catch::Matchers::Contains;

namespace {

// Returns the words that run hvdrun inside an allocation of two tasks on each of two nodes.
Words in_allocation(const SlurmLab& slurm) {
  Words words = slurm.on_front();
  words.insert(words.end(), {"salloc", "--quiet", "-N", "2", "--ntasks-per-node=2"});
  return words;
}

}  // namespace

TEST_CASE("in an allocation of Slurm hvdrun uses its hosts and starts agents with srun") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  HvdrunProcess run({"--verbose", "sh", "-c", "echo $(hostname) $RUEDA_HOSTNAME $RUEDA_LOCAL_RANK/$RUEDA_LOCAL_SIZE"},
                    in_allocation(slurm));
  CHECK(run.wait() == 0);
  INFO(run.err());
  for (int rank = 0; rank < 4; ++rank) {
    const std::string node = rank < 2 ? "node1" : "node2";
    CHECK_THAT(run.out(), Contains("[" + std::to_string(rank) + "]<stdout>:" + node + " " + node + " " +
                                   std::to_string(rank % 2) + "/2\n"));
  }
  CHECK_THAT(run.err(), Contains("host node2 (node2) is reached"));
}

TEST_CASE("--launcher chooses what starts the agents, whatever the batch system is") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  slurm.lab().write_file(1, "/etc/ssh/sshrc", "touch /run/by_ssh\n");
  const auto by_ssh = [&] {
    return slurm.lab().shell(1, "if test -e /run/by_ssh; then rm /run/by_ssh; echo yes; fi") == "yes\n";
  };
  HvdrunProcess ssh({"--launcher", "ssh", "hostname"}, in_allocation(slurm));
  CHECK(ssh.wait() == 0);
  INFO(ssh.err());
  CHECK_THAT(ssh.out(), Contains("[3]<stdout>:node2"));
  CHECK(by_ssh());
  HvdrunProcess srun({"--launcher", "srun", "-np", "2", "-H", "node1:1,node2:1", "hostname"}, in_allocation(slurm));
  CHECK(srun.wait() == 0);
  INFO(srun.err());
  CHECK_THAT(srun.out(), Contains("[1]<stdout>:node2"));
  CHECK_FALSE(by_ssh());
}

TEST_CASE("hvdrun names the first failure in an allocation and ends the job on all nodes") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  HvdrunProcess run({"--grace-seconds", "1", "sh", "-c", "test $RUEDA_RANK = 3 && exit 9; exec sleep 1000"},
                    in_allocation(slurm));
  CHECK(run.wait() == 9);
  CHECK_THAT(run.err(), Contains("the first to fail: rank 3 (host node2, pid "));
  for (int host = 0; host < 2; ++host) CHECK(slurm.lab().process_named(host, "sleep") == -1);
}

TEST_CASE("ranks that srun starts find each other by Slurm's variables") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  for (int host = 0; host < 2; ++host) {
    slurm.lab().write_file(host, "/run/job.key", std::string(32, 'x'));
    static_cast<void>(slurm.lab().shell(host, "chmod 600 /run/job.key"));
  }
  Words words = slurm.on_front();
  words.insert(words.end(), {"RUEDA_JOB_KEY_FILE=/run/job.key", "srun", "-N", "2", "-n", "3",
                             std::string(RUEDA_TEST_BIN) + "/hello_allreduce"});
  const auto result = rueda::test::run_command(words);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  for (const char* rank : {"0", "1", "2"})
    CHECK_THAT(result.out, Contains("rank " + std::string(rank) + " of 3: the ranks add up to 3\n"));
}

TEST_CASE("ranks of one node need no key") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  Words words = slurm.on_front();
  words.insert(words.end(),
               {"XDG_RUNTIME_DIR=", "srun", "-N", "1", "-n", "2", std::string(RUEDA_TEST_BIN) + "/hello_allreduce"});
  const auto result = rueda::test::run_command(words);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("rank 1 of 2: the ranks add up to 1\n"));
}
