// Allocations of batch systems, read from variables and files as Slurm, PBS and LSF set them.

#include "launcher/allocation.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <map>

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Hosts = std::vector<HostSlots>;
using Variables = std::map<std::string, std::string>;

namespace {

Hosts hosts_of(Variables variables) {
  const auto allocation = read_allocation(Environment(std::move(variables)));
  REQUIRE(allocation.ok());
  REQUIRE(allocation.value().has_value());
  return allocation.value()->hosts;
}

std::string complaint(Variables variables) {
  const auto allocation = read_allocation(Environment(std::move(variables)));
  REQUIRE_FALSE(allocation.ok());
  CHECK(allocation.status().code() == Code::kInvalidArgument);
  return allocation.status().sentence();
}

}  // namespace

TEST_CASE("an environment without a batch system has no allocation") {
  const auto allocation = read_allocation(Environment(Variables{{"SLURM_CONF", "/etc/slurm.conf"}}));
  REQUIRE(allocation.ok());
  CHECK_FALSE(allocation.value().has_value());
}

TEST_CASE("a Slurm node has a slot for each task, or without tasks for each core") {
  CHECK(hosts_of({{"SLURM_JOB_NODELIST", "node[1-2],gpu7"}, {"SLURM_TASKS_PER_NODE", "4(x2),1"}}) ==
        Hosts{{"node1", 4}, {"node2", 4}, {"gpu7", 1}});
  CHECK(hosts_of({{"SLURM_JOB_NODELIST", "node3"}, {"SLURM_JOB_CPUS_PER_NODE", "16"}}) == Hosts{{"node3", 16}});
}

TEST_CASE("PBS lists a host once for each slot, in a file") {
  const std::string path = "/tmp/rueda-nodes-" + std::to_string(getpid());
  std::ofstream(path) << "a\na\nb\na\n";
  CHECK(hosts_of({{"PBS_NODEFILE", path}}) == Hosts{{"a", 3}, {"b", 1}});
  std::ofstream(path) << "";
  CHECK(complaint({{"PBS_NODEFILE", path}}) == "PBS_NODEFILE: names no host");
  std::remove(path.c_str());
  CHECK(complaint({{"PBS_NODEFILE", path}}) == "PBS_NODEFILE: " + path + " cannot be read");
}

TEST_CASE("LSF lists hosts and slots in turn") {
  CHECK(hosts_of({{"LSB_MCPU_HOSTS", "a 4 b 2"}}) == Hosts{{"a", 4}, {"b", 2}});
  CHECK(complaint({{"LSB_MCPU_HOSTS", "a 4 b"}}) == "LSB_MCPU_HOSTS: \"a 4 b\" has no slots for b");
}

TEST_CASE("an unreadable allocation is an error and never becomes a job on one host") {
  CHECK(complaint({{"SLURM_JOB_NODELIST", "n[1-"}, {"SLURM_TASKS_PER_NODE", "1"}}) ==
        "SLURM_JOB_NODELIST: \"n[1-\" is not a list of nodes in Slurm's notation");
  CHECK(complaint({{"SLURM_JOB_NODELIST", "a,b"}}) == "SLURM_JOB_NODELIST: is set, but SLURM_TASKS_PER_NODE is not");
  CHECK(complaint({{"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "4"}}) ==
        "SLURM_TASKS_PER_NODE: \"4\" covers 1 nodes, but SLURM_JOB_NODELIST names 2");
  CHECK_THAT(complaint({{"LSB_MCPU_HOSTS", "-oProxyCommand=x 4"}}), Contains("is not a host name"));
}

TEST_CASE("srun starts one task on the host, which shares its resources with other steps") {
  const auto words = srun_command({"node2", 4, ""}, "/opt/hvdrun");
  CHECK(words.front() == "srun");
  for (const char* word : {"--nodes=1", "--ntasks=1", "--nodelist=node2", "--overlap"})
    CHECK(std::find(words.begin(), words.end(), word) != words.end());
  CHECK(std::vector<std::string>(words.end() - 3, words.end()) ==
        std::vector<std::string>{"--", "/opt/hvdrun", "--agent"});
}
