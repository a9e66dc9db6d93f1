#include "runtime/rendezvous/identity.h"

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using Variables = std::map<std::string, std::string>;

Result<Identity> read(Variables variables, const IdentityOptions& options = {}) {
  return read_identity(options, Environment(std::move(variables)));
}

std::string failure(Variables variables) {
  const auto identity = read(std::move(variables));
  REQUIRE_FALSE(identity.ok());
  CHECK(identity.status().code() == Code::kInvalidArgument);
  return identity.status().sentence();
}

TEST_CASE("each launcher's environment says who a process is") {
  struct Row {
    const char* launcher;
    Variables variables;
    int rank, size, local_size;
    const char* job;
  };
  const Row rows[] = {
      {"nothing", {}, 0, 1, 0, "job"},
      {"hvdrun",
       {{"RUEDA_RANK", "3"}, {"RUEDA_SIZE", "4"}, {"RUEDA_LOCAL_SIZE", "4"}, {"RUEDA_JOB", "j1"}},
       3,
       4,
       4,
       "j1"},
      {"torchrun",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "run7"}},
       1,
       2,
       2,
       "run7"},
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
       5,
       6,
       3,
       "job"},
      {"Horovod", {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_LOCAL_SIZE", "1"}}, 1, 2, 1, "job"},
      {"PMI", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2, 0, "job"},
      {"Slurm step",
       {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}},
       2,
       8,
       0,
       "77"},
      {"Slurm step that says how many tasks its nodes have",
       {{"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "5"},
        {"SLURM_NTASKS", "7"},
        {"SLURM_NODEID", "2"},
        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"}},
       5,
       7,
       3,
       "job"},
      {"a Slurm step of fewer tasks than its job, as the shell of salloc",
       {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}},
       0,
       1,
       0,
       "job"},
      {"an MPI library that no launcher has started",
       {{"OMPI_MCA_ess", "singleton"}, {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "2123431937"}},
       0,
       1,
       0,
       "job"},
      {"one rank of torchrun's inside a job of MPI's",
       {{"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"TORCHELASTIC_RUN_ID", "run7"},
        {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"}},
       0,
       1,
       0,
       "run7"},
      {"Open MPI under srun --mpi=pmix",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NUM_TASKS", "4"}},
       1,
       4,
       0,
       "job"},
      {"a batch script of Slurm, which is not a step", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, 0, 1, 0, "job"},
      {"hvdrun inside Slurm",
       {{"RUEDA_RANK", "1"}, {"RUEDA_SIZE", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
       1,
       2,
       0,
       "job"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.launcher);
    const auto identity = read(row.variables);
    REQUIRE(identity.ok());
    CHECK(identity.value().rank == row.rank);
    CHECK(identity.value().size == row.size);
    CHECK(identity.value().local_size == row.local_size);
    CHECK(identity.value().job == row.job);
    CHECK_FALSE(identity.value().host.empty());
    CHECK(identity.value().worker.size() == 32);
  }
}

TEST_CASE("half of an environment is an error that names what is missing") {
  CHECK(failure({{"RUEDA_RANK", "0"}}) == "RUEDA_SIZE is not set, but RUEDA_RANK (of hvdrun) is");
  CHECK(failure({{"RUEDA_SIZE", "2"}}) == "RUEDA_RANK is not set, but RUEDA_SIZE (of hvdrun) is");
  CHECK_THAT(failure({{"RANK", "0"}}), Contains("WORLD_SIZE is not set"));
  CHECK_THAT(failure({{"WORLD_SIZE", "2"}}), Contains("RANK is not set"));
  CHECK_THAT(failure({{"OMPI_COMM_WORLD_SIZE", "2"}}), Contains("OMPI_COMM_WORLD_RANK is not set"));
  CHECK_THAT(failure({{"PMI_RANK", "2"}}), Contains("PMI_SIZE is not set"));
  CHECK_THAT(failure({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}), Contains("SLURM_PROCID is not set"));
  CHECK_THAT(failure({{"SLURM_STEP_ID", "0"}}), Contains("SLURM"));
  CHECK_THAT(failure({{"PMIX_RANK", "0"}}), Contains("RUEDA_SIZE"));
  CHECK_THAT(failure({{"PMIX_NAMESPACE", "job.1"}}), Contains("PMIX_NAMESPACE is set") && Contains("RUEDA_SIZE"));
  CHECK_THAT(failure({{"HOROVOD_RANK", "0"}}), Contains("HOROVOD_SIZE is not set"));
  CHECK(failure({{"RANK", ""}, {"WORLD_SIZE", ""}}) == "RANK is set but empty; unset it for a job of one rank");
  CHECK(failure({{"RUEDA_RANK", ""}, {"RUEDA_SIZE", ""}}) ==
        "RUEDA_RANK is set but empty; unset it for a job of one rank");
  for (const char* alone : {"RUEDA_STORE_ADDR", "RUEDA_LOCAL_RANK", "RUEDA_LOCAL_SIZE", "RUEDA_CROSS_SIZE"}) {
    CHECK_THAT(failure({{alone, "1"}}),
               Contains("RUEDA_RANK and RUEDA_SIZE are not set, but " + std::string(alone) + " is"));
  }
  for (const auto& [alone, place] : std::vector<std::pair<std::string, std::string>>{
           {"LOCAL_RANK", "RANK and WORLD_SIZE"},
           {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"},
           {"PMI_FD", "PMI_RANK and PMI_SIZE"},
           {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_RANK and HOROVOD_SIZE"}}) {
    CHECK(failure({{alone, "1"}}) == place + " are not set, but " + alone + " is");
  }
  CHECK_THAT(failure({{"LOCAL_WORLD_SIZE", "2"}}), Contains("RANK and WORLD_SIZE are not set"));
  CHECK(read({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}, {"MASTER_ADDR", "h"}}).ok());
  CHECK(failure({{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "5"}}) ==
        "SLURM_PROCID and SLURM_STEP_NUM_TASKS are not set, but SLURM_STEP_ID (of Slurm) is");
}

TEST_CASE("an MPI library that knows nothing of its Slurm step is an error that names the plug-in") {
  const std::string sentence = failure({{"OMPI_COMM_WORLD_RANK", "0"},
                                        {"OMPI_COMM_WORLD_SIZE", "1"},
                                        {"SLURM_STEP_ID", "0"},
                                        {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK_THAT(sentence, Contains("OMPI_COMM_WORLD_SIZE (of Open MPI) says that the job has 1 rank") && Contains("4"));
  CHECK_THAT(sentence, Contains("srun --mpi=pmix"));
  CHECK_THAT(failure({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
             Contains("PMI_SIZE (of PMI)"));
  CHECK(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).ok());
  CHECK(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}).ok());  // no step
}

TEST_CASE("variables that say 1 rank, and a launcher that says more, are an error that names both") {
  const Variables alone = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const auto beside = [&alone](Variables others) {
    others.insert(alone.begin(), alone.end());
    return failure(others);
  };
  CHECK(
      beside({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) ==
      "WORLD_SIZE (of torchrun) says that the job has 1 rank, OMPI_COMM_WORLD_SIZE (of Open MPI) that it has 2: unset "
      "RANK and WORLD_SIZE, or those of Open MPI");
  CHECK_THAT(beside({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}), Contains("PMI_SIZE (of PMI) that it has 3"));
  CHECK_THAT(beside({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
             Contains("SLURM_STEP_NUM_TASKS (of Slurm) that it has 4"));
  CHECK_THAT(failure({{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}),
             Contains("RUEDA_SIZE (of hvdrun) says"));
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}}).ok());  // no step
}

TEST_CASE("numbers out of range are errors that name variable, value and range") {
  CHECK_THAT(failure({{"RUEDA_RANK", "4"}, {"RUEDA_SIZE", "4"}}), Contains("RUEDA_RANK: \"4\"") && Contains("0 to 3"));
  CHECK_THAT(failure({{"RUEDA_RANK", "-1"}, {"RUEDA_SIZE", "4"}}), Contains("RUEDA_RANK: \"-1\""));
  CHECK_THAT(failure({{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "0"}}), Contains("RUEDA_SIZE: \"0\""));
  CHECK_THAT(failure({{"RUEDA_RANK", "0x"}, {"RUEDA_SIZE", "4"}}), Contains("\"0x\""));
  CHECK_THAT(failure({{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "4"}, {"RUEDA_LOCAL_SIZE", "5"}}),
             Contains("RUEDA_LOCAL_SIZE"));
  CHECK_THAT(failure({{"RUEDA_JOB", "a/b"}}), Contains("a/b"));
}

TEST_CASE("fields that the caller gives win over the environment") {
  IdentityOptions options;
  options.rank = 1;
  options.size = 3;
  options.host = "mine";
  JobKey key;
  key.present = true;
  key.bytes.fill(9);
  options.key = key;
  const auto identity =
      read({{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "9"}, {"RUEDA_HOSTNAME", "theirs"}, {"RUEDA_JOB_KEY_FILE", "/none"}},
           options);
  REQUIRE(identity.ok());
  CHECK(identity.value().rank == 1);
  CHECK(identity.value().size == 3);
  CHECK(identity.value().host == "mine");
  CHECK(identity.value().key.bytes == key.bytes);
  CHECK(read({{"RUEDA_HOSTNAME", "theirs"}}).value().host == "theirs");
  options.size = 1;
  CHECK_FALSE(read({}, options).ok());
  options.size.reset();
  CHECK_FALSE(read({}, options).ok());
}

}  // namespace
}  // namespace rueda::core
