// The command line of mpirun for a job, and the environment of its ranks.
#include "launcher/mpirun.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>

using namespace rueda::core;
using namespace rueda::core::launcher;

namespace {

using Words = std::vector<std::string>;

JobPlan plan_for(int processes, const std::string& hosts) {
  JobPlan plan;
  const auto parsed = parse_hosts(hosts).value();
  plan.placements = place(processes, parsed).value();
  plan.hosts = share_out(parsed, plan.placements);
  plan.program = "./train";
  return plan;
}

Words command(const Words& flags, const JobPlan& plan, const Variables& environment = {}) {
  Words all = flags;
  all.insert(all.end(), {"./train", "--epochs", "3"});
  return mpirun_command(parse_arguments(all).value(), plan, "/usr/bin/mpirun", environment).value();
}

bool contains(const Words& words, const Words& part) {
  return std::search(words.begin(), words.end(), part.begin(), part.end()) != words.end();
}

}  // namespace

TEST_CASE("--mpi starts a rank for each slot of the hosts, without binding") {
  CHECK(command({"--mpi"}, plan_for(6, "node1:4,node2:4"), {{"OMP_NUM_THREADS", "3"}}) ==
        Words{"/usr/bin/mpirun", "-np", "6", "-H", "node1:4,node2:2", "--bind-to", "none", "--map-by", "slot",
              "--tag-output", "-x", "OMP_NUM_THREADS", "./train", "--epochs", "3"});
}

TEST_CASE("--mpi lets each host share its cores among its ranks unless the user sets a number of threads") {
  const Words words = command({"--mpi"}, plan_for(2, "node1:2"));
  const auto shell = std::find(words.begin(), words.end(), "sh");
  REQUIRE(words.end() - shell == 7);
  CHECK(Words(shell + 3, words.end()) == Words{"sh", "./train", "--epochs", "3"});
  const auto threads = [&script = shell[2]](const std::string& ranks) {
    const std::string line = "OMPI_COMM_WORLD_LOCAL_SIZE=" + ranks + " taskset -c 0,1 sh -c '" + script +
                             "' sh sh -c 'echo $OMP_NUM_THREADS'";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "re"), ::pclose);
    std::array<char, 64> text{};
    return std::string(text.data(), std::fread(text.data(), 1, text.size(), pipe.get()));
  };
  CHECK(threads("1") == "2\n");
  CHECK(threads("2") == "1\n");
  CHECK(threads("9") == "1\n");
}

TEST_CASE("--mpi passes on ssh's options, files, time stamps and --mpi-args") {
  const Words words =
      command({"--mpi", "-p", "2222", "-i", "key", "--output-filename", "out", "--prefix-timestamp", "--tcp",
               "--binding-args", "--bind-to core", "--mpi-args", "--mca a b  --report-bindings"},
              plan_for(2, "node1:2"));
  CHECK(contains(words, {"--mca", "plm_rsh_args", "-p 2222 -i key"}));
  CHECK(contains(words, {"--output-filename", "out:nojobid"}));
  CHECK(contains(words, {"--tag-output", "--timestamp-output"}));
  CHECK(contains(words, {"--mca", "btl", "self,vader,tcp"}));
  CHECK(contains(words, {"node1:2", "--bind-to", "core", "--mca", "plm_rsh_args"}));
  CHECK_FALSE(contains(words, {"--map-by"}));
  CHECK(contains(words, {"--mca", "a", "b", "--report-bindings", "sh"}));
}

TEST_CASE("--mpi passes our variables and paths to other hosts by name, with no value on the command line") {
  const Variables environment = {{"RUEDA_LOG_LEVEL", "info"},
                                 {"HOROVOD_CACHE_CAPACITY", "12"},
                                 {"PATH", "/bin"},
                                 {"LD_LIBRARY_PATH", "/lib"},
                                 {"PYTHONPATH", "/py"},
                                 {"HOME", "/root"}};
  const Words words = command({"--mpi"}, plan_for(2, "node1:2"), environment);
  for (const std::string name :
       {"RUEDA_LOG_LEVEL", "HOROVOD_CACHE_CAPACITY", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}) {
    CHECK(contains(words, {"-x", name}));
  }
  CHECK_FALSE(contains(words, {"-x", "HOME"}));
  CHECK(std::none_of(words.begin(), words.end(), [](const auto& word) { return word.find("info") != word.npos; }));
}

TEST_CASE("ranks under mpirun use MPI unless a setting says otherwise, and inherit nothing of an outer job") {
  const Variables plain = mpi_environment({{"RUEDA_RANK", "3"},
                                           {"HOROVOD_SIZE", "4"},
                                           {"RUEDA_STORE_ADDR", "a:1"},
                                           {"RUEDA_JOB_KEY_FD", "5"},
                                           {"HOME", "/root"}},
                                          {{"RUEDA_LOG_LEVEL", "info"}});
  CHECK(plain == Variables{{"HOME", "/root"},
                           {"PYTHONUNBUFFERED", "1"},
                           {"RUEDA_CONTROLLER", "mpi"},
                           {"RUEDA_CPU_OPERATIONS", "mpi"},
                           {"RUEDA_LOG_LEVEL", "info"}});
  CHECK(mpi_environment({}, {{"RUEDA_CONTROLLER", "tcp"}}).at("RUEDA_CONTROLLER") == "tcp");
  CHECK(mpi_environment({{"HOROVOD_CPU_OPERATIONS", "gloo"}}, {}).count("RUEDA_CPU_OPERATIONS") == 0);
}

TEST_CASE("hvdrun refuses a flag that mpirun has no equivalent for and says what to do") {
  const auto refused = [](const Words& flags, const std::string& hosts) {
    Words all = flags;
    all.push_back("./train");
    const auto words = mpirun_command(parse_arguments(all).value(), plan_for(1, hosts), "mpirun", {});
    CHECK(words.status().code() == Code::kInvalidArgument);
    return words.status().sentence();
  };
  CHECK(refused({"--mpi"}, "me@node1:1") ==
        "-H me@node1: mpirun takes no user names; put the user into ssh's configuration (Host, User)");
  CHECK(refused({"--mpi"}, "[fd77:1::1]:2") == "-H [fd77:1::1]: mpirun takes no IPv6 addresses; give the host's name");
  CHECK(refused({"--mpi", "-i", "my key"}, "node1:1") ==
        "-i \"my key\": mpirun splits ssh's arguments at blanks; put the key into ssh's configuration (IdentityFile)");
  CHECK(refused({"--mpi", "--output-filename", "a:b"}, "node1:1") ==
        "--output-filename a:b: mpirun splits the name at the colon; give a name without one");
  CHECK(refused({"--mpi", "--launcher", "srun"}, "node1:1").find("--launcher") == 0);
}

TEST_CASE("hvdrun uses only Open MPI's mpirun and quotes another one's version") {
  CHECK(unlike_open_mpi("mpirun (Open MPI) 4.1.4\n\nReport bugs to").empty());
  CHECK(unlike_open_mpi("HYDRA build details:\n  Version: 4.0.2").find("\"HYDRA build details:\"") !=
        std::string::npos);
  CHECK_FALSE(unlike_open_mpi("").empty());
}
