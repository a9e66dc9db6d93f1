// Config files: how entries become flags, which flags win, and the line and sentence for each mistake.

#include "launcher/config_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "launcher/arguments.h"

using namespace rueda::core;
using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

const ConfigVocabulary kVocabulary{{"np", "hosts", "grace-seconds"},
                                   {"verbose", "hierarchical-allreduce", "no-hierarchical-allreduce"}};

std::string complaint(const std::string& yaml) {
  const auto words = config_words(yaml, kVocabulary, {});
  REQUIRE_FALSE(words.ok());
  CHECK(words.status().code() == Code::kInvalidArgument);
  return words.status().sentence();
}

/// A file that the destructor removes.
class File {
 public:
  explicit File(const std::string& text) : path_("/tmp/rueda-config-" + std::to_string(getpid()) + ".yaml") {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("a config file is read as the words of a command line") {
  const std::string yaml =
      "# a job\nnp: 8\nhosts: [node1:4, node2:4]\nverbose: true\nhierarchical-allreduce: false\ngrace-seconds: 7\n";
  const auto words = config_words(yaml, kVocabulary, {});
  REQUIRE(words.ok());
  CHECK(words.value() == Words{"--np", "8", "--hosts", "node1:4,node2:4", "--verbose", "--no-hierarchical-allreduce",
                               "--grace-seconds", "7"});
  CHECK(config_words("", kVocabulary, {}).value().empty());
  CHECK(config_words("verbose: false\n", kVocabulary, {}).value().empty());
}

TEST_CASE("a flag of the command line, in either form, replaces the file's entry") {
  const std::string yaml = "np: 8\nno-hierarchical-allreduce: true\nverbose: true\n";
  CHECK(config_words(yaml, kVocabulary, {"np", "hierarchical-allreduce"}).value() == Words{"--verbose"});
  CHECK(config_words("hosts: a:4\n", kVocabulary, {"hostfile"}).value().empty());
}

TEST_CASE("the sections and underscores of horovodrun's config files are read") {
  const File file(
      "verbose: true\nnum_proc: 4\n"
      "params:\n  fusion_threshold_mb: 32\n  cycle_time_ms: 10\n  cache_capacity: 2048\n"
      "  hierarchical_allreduce: true\n"
      "autotune:\n  enabled: true\n  log_file: tune.log\n  warmup_samples: 5\n"
      "timeline:\n  filename: t.json\n  mark_cycles: true\n"
      "stall_check:\n  enabled: false\n  warning_time_seconds: 120\n  shutdown-time-seconds: 240\n"
      "library_options:\n  mpi_threads_disable: true\n  num_nccl_streams: 2\n  gloo_timeout_seconds: 60\n"
      "logging:\n  level: INFO\n  hide_timestamp: true\n");
  const auto parsed = parse_arguments({"--config-file", file.path(), "--cache-capacity", "7", "train"});
  INFO(parsed.status().sentence());
  REQUIRE(parsed.ok());
  CHECK(parsed.value().processes == 4);
  CHECK(parsed.value().verbose);
  const std::map<std::string, std::string> expected = {{"RUEDA_FUSION_THRESHOLD", "32MiB"},
                                                       {"RUEDA_CACHE_CAPACITY", "7"},
                                                       {"RUEDA_HIERARCHICAL_ALLREDUCE", "1"},
                                                       {"RUEDA_AUTOTUNE", "1"},
                                                       {"RUEDA_AUTOTUNE_LOG", "tune.log"},
                                                       {"RUEDA_TIMELINE", "t.json"},
                                                       {"RUEDA_TIMELINE_MARK_CYCLES", "1"},
                                                       {"RUEDA_STALL_CHECK_DISABLE", "1"},
                                                       {"RUEDA_STALL_CHECK_TIME_SECONDS", "120"},
                                                       {"RUEDA_STALL_SHUTDOWN_TIME_SECONDS", "240"},
                                                       {"RUEDA_PEER_TIMEOUT_SECONDS", "60"},
                                                       {"RUEDA_LOG_LEVEL", "INFO"},
                                                       {"RUEDA_LOG_HIDE_TIME", "1"}};
  CHECK(parsed.value().variables == expected);
  CHECK(parsed.value().without_meaning.size() == 4);
}

TEST_CASE("an error in a config file names its line") {
  CHECK(complaint("np: 8\nhost: a:1\n") == "line 2: there is no flag \"host\"; did you mean hosts?");
  CHECK(complaint("params:\n  grace_second: 1\n") ==
        "line 2: there is no flag \"grace-second\"; did you mean grace-seconds?");
  CHECK(complaint("zzzzzz: 1\n") == "line 1: there is no flag \"zzzzzz\"; hvdrun --help lists the flags");
  CHECK(complaint("verbose: maybe\n") == "line 1: verbose must be true or false");
  CHECK(complaint("np: {a: b}\n") == "line 1: np needs a value or a list of values");
  CHECK(complaint("hosts: [[a], b]\n") == "line 1: hosts needs a list of plain values, but an item is a list or a map");
  CHECK(complaint("verbose: true\nnp:\n") == "line 2: np needs a value or a list of values");
  CHECK(complaint("hierarchical-allreduce: true\nno-hierarchical-allreduce: true\n") ==
        "line 2: no-hierarchical-allreduce contradicts hierarchical-allreduce above it");
  CHECK(complaint("np: 2\n---\nnp: 3\n") == "line 3: a second YAML document starts here; only one is allowed");
  CHECK(complaint("np: 2\nhosts: a:1\nnp: 3\n") == "line 3: np is given twice");
  CHECK(complaint("- np\n") == "line 1: the file must be a map of flags and values, as in `np: 8`");
  CHECK_THAT(complaint("np: [1\n"), Catch::StartsWith("line "));
}

TEST_CASE("a config file that is no YAML is not read for ever") {
  CHECK(config_words(",", kVocabulary, {}).ok());  // which yaml-cpp takes for endless documents
  const std::string yaml("np: 2\n\0,:", 9);
  CHECK(complaint(yaml) == "line 2: the control character 0x00 is not allowed in YAML; is this a text file?");
}

TEST_CASE("flags win over the config file, and both over the defaults") {
  const File file("np: 8\nhosts: [a:4, b:4]\nfusion-threshold-mb: 32\nssh-port: 2222\n");
  const auto parsed = parse_arguments({"-np", "3", "--config-file", file.path(), "train", "--np", "9"});
  REQUIRE(parsed.ok());
  const Arguments& arguments = parsed.value();
  CHECK(arguments.processes == 3);
  CHECK(arguments.hosts == "a:4,b:4");
  CHECK(arguments.ssh.port == 2222);
  CHECK(arguments.variables.at("RUEDA_FUSION_THRESHOLD") == "32MiB");
  CHECK(arguments.command == Words{"train", "--np", "9"});
}

TEST_CASE("a config file has the flags of elastic jobs, too") {
  const File file(
      "np: 4\nmin-np: 2\nhost-discovery-script: ./hosts.sh\nslots-per-host: 3\ndiscovery_timeout: 2.5\n"
      "discovery-interval: 0.5\nhorovod-defaults: true\n"
      "removal-timeout: 60\nblacklist-cooldown-range: [5, 10]\nadmit: discovered\n");
  const auto parsed = parse_arguments({"--config-file", file.path(), "--min-np", "3", "train"});
  INFO(parsed.status().sentence());
  REQUIRE(parsed.ok());
  const ElasticArguments& elastic = parsed.value().elastic;
  CHECK(elastic.least == 3);
  CHECK(elastic.script == "./hosts.sh");
  CHECK(elastic.slots_per_host == 3);
  CHECK(elastic.discovery_timeout_seconds == 2.5);
  CHECK(elastic.discovery_interval_seconds == 0.5);
  CHECK(elastic.horovod_defaults);
  CHECK(elastic.removal_timeout_seconds == 60);
  CHECK(elastic.cooldown_seconds == std::pair(5, 10));
  CHECK(elastic.admission == Admission::kDiscovered);
}

TEST_CASE("an error in a config file names the file, and its values are checked like those of flags") {
  const File file("hots: a:8\n");
  const auto parsed = parse_arguments({"--config-file", file.path(), "train"});
  CHECK(parsed.status().sentence() ==
        "config file " + file.path() + ", line 1: there is no flag \"hots\"; did you mean hosts?");
  CHECK(parse_arguments({"--config-file", "/nowhere.yaml", "train"}).status().sentence() ==
        "config file /nowhere.yaml cannot be read: No such file or directory");
  CHECK(parse_arguments({"--config-file", "/tmp", "train"}).status().sentence() ==
        "config file /tmp cannot be read: Is a directory");
  const File bad("np: many\n");
  CHECK_THAT(parse_arguments({"--config-file", bad.path(), "train"}).status().sentence(),
             Catch::StartsWith("config file " + bad.path() + ": -np: Value many"));
}
