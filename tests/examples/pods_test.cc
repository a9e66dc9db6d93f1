// The pods of examples/kubernetes/train.yaml, each as a host of the lab (tests/support/netlab.h).
#include <yaml-cpp/yaml.h>

#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"

using Catch::Matchers::Contains;
using rueda::test::CommandResult;
using rueda::test::NetLab;
using Words = std::vector<std::string>;

namespace {

struct Manifest {
  YAML::Node service, job, container;
};

Manifest manifest() {
  const std::vector<YAML::Node> documents = YAML::LoadAllFromFile(RUEDA_TEST_MANIFEST);
  REQUIRE(documents.size() == 2);
  const YAML::Node pod = documents[1]["spec"]["template"]["spec"];
  REQUIRE(pod["containers"].size() == 1);
  return {documents[0], documents[1], pod["containers"][0]};
}

// Returns the command of a pod with what a cluster gives it: name, index, volume, temporary folder and variables.
Words start(const NetLab& lab, const YAML::Node& container, int pod) {
  Words words = lab.on(pod);
  words.insert(words.end(), {"env", "PATH=" RUEDA_TEST_BIN ":/usr/bin:/bin", "HOSTNAME=" + NetLab::name(pod),
                             "TMPDIR=/run", "JOB_COMPLETION_INDEX=" + std::to_string(pod)});
  for (const YAML::Node& variable : container["env"]) {
    words.push_back(variable["name"].as<std::string>() + "=" + variable["value"].as<std::string>());
  }
  for (const char* part : {"command", "args"}) {
    for (const YAML::Node& word : container[part]) words.push_back(word.as<std::string>());
  }
  return words;
}

}  // namespace

TEST_CASE("the pods of an Indexed Job train together without ssh and without a launcher") {
  NetLab::skip_without();
  const Manifest all = manifest();
  const int pods = all.job["spec"]["completions"].as<int>();
  CHECK(all.job["spec"]["parallelism"].as<int>() == pods);
  const std::string service = all.service["metadata"]["name"].as<std::string>();
  const std::string first = all.job["metadata"]["name"].as<std::string>() + "-0." + service;
  const std::string volume = all.container["volumeMounts"][0]["mountPath"].as<std::string>();

  const NetLab lab({.hosts = pods});
  std::vector<std::future<CommandResult>> results;
  for (int pod = 0; pod < pods; ++pod) {
    static_cast<void>(lab.shell(pod, "mkdir " + volume));
    lab.write_file(pod, volume + "/job.key", std::string(32, 'k'));
    // The first pod cannot look itself up in the service, as in a cluster with slow DNS.
    if (pod > 0) static_cast<void>(lab.shell(pod, "echo " + NetLab::address(0) + " " + first + " >>/etc/hosts"));
  }
  for (int pod = 0; pod < pods; ++pod) {
    const Words words = start(lab, all.container, pod);
    results.push_back(std::async(std::launch::async, [words] { return rueda::test::run_command(words); }));
  }
  for (int pod = 0; pod < pods; ++pod) {
    const CommandResult result = results[static_cast<size_t>(pod)].get();
    INFO("pod " << pod << ":\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Contains("rank " + std::to_string(pod) + ": parameters "));
  }
}
