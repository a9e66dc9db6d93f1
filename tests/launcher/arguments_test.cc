// hvdrun's command line: which words are flags, which belong to the program, and the sentence for each mistake.

#include "launcher/arguments.h"

#include <catch2/catch.hpp>

#include "launcher/suggestion.h"
#include "runtime/base/settings.h"

using namespace rueda::core;
using namespace rueda::core::launcher;

namespace {

std::string sentence(const std::vector<std::string>& words) {
  const auto parsed = parse_arguments(words);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == Code::kInvalidArgument);
  return parsed.status().sentence();
}

}  // namespace

TEST_CASE("words after the program's name belong to the program") {
  const auto parsed = parse_arguments({"-np", "2", "--verbose", "train", "-np", "7", "--help", "--", "-x"});
  REQUIRE(parsed.ok());
  CHECK(parsed.value().processes == 2);
  CHECK(parsed.value().verbose);
  CHECK(parsed.value().action == Action::kRun);
  CHECK(parsed.value().command == std::vector<std::string>{"train", "-np", "7", "--help", "--", "-x"});
}

TEST_CASE("two dashes end the flags") {
  const auto parsed = parse_arguments({"-np", "1", "--", "-strange-name", "x"});
  REQUIRE(parsed.ok());
  CHECK(parsed.value().command == std::vector<std::string>{"-strange-name", "x"});
}

TEST_CASE("long names that Horovod writes with one dash work with one and with two") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-np", "3", "-hostfile", "f", "-prefix-timestamp", "p"},
        std::vector<std::string>{"--np=3", "--hostfile=f", "--prefix-output-with-timestamp", "p"},
        std::vector<std::string>{"-n3", "-hostfile=f", "--prefix-timestamp", "p"}}) {
    const auto parsed = parse_arguments(words);
    REQUIRE(parsed.ok());
    CHECK(parsed.value().processes == 3);
    CHECK(parsed.value().hostfile == "f");
    CHECK(parsed.value().timestamps);
    CHECK(parsed.value().command == std::vector<std::string>{"p"});
  }
  CHECK(parse_arguments({"-cb"}).value().action == Action::kCheckBuild);
  CHECK(parse_arguments({"--check-build"}).value().action == Action::kCheckBuild);
  CHECK(parse_arguments({"-v"}).value().action == Action::kVersion);
  CHECK(parse_arguments({"-H", "localhost:2", "p"}).value().hosts == "localhost:2");
  CHECK(parse_arguments({"-Hlocalhost:2", "p"}).value().hosts == "localhost:2");
}

TEST_CASE("every setting with a flag sets its variable") {
  const auto parsed = parse_arguments({"--fusion-threshold-mb", "32", "--cache-capacity=7", "--hierarchical-allreduce",
                                       "--no-caller-progress", "--start-timeout", "90", "p"});
  REQUIRE(parsed.ok());
  const std::map<std::string, std::string> expected = {{"RUEDA_FUSION_THRESHOLD", "32MiB"},
                                                       {"RUEDA_CACHE_CAPACITY", "7"},
                                                       {"RUEDA_HIERARCHICAL_ALLREDUCE", "1"},
                                                       {"RUEDA_CALLER_PROGRESS", "0"},
                                                       {"RUEDA_INIT_TIMEOUT_SECONDS", "90"}};
  CHECK(parsed.value().variables == expected);
  CHECK(parsed.value().start_timeout.count() == 90);
}

TEST_CASE("flags of horovodrun that have another name here mean the same") {
  const auto parsed = parse_arguments({"--num-proc", "3", "--hosts", "localhost:4", "--network-interface", "lo",
                                       "--gloo-timeout-seconds", "90", "--log-without-timestamp", "p"});
  REQUIRE(parsed.ok());
  CHECK(parsed.value().processes == 3);
  CHECK(parsed.value().hosts == "localhost:4");
  CHECK(parsed.value().without_meaning.empty());
  const std::map<std::string, std::string> expected = {
      {"RUEDA_NETWORK_INTERFACES", "lo"}, {"RUEDA_PEER_TIMEOUT_SECONDS", "90"}, {"RUEDA_LOG_HIDE_TIME", "1"}};
  CHECK(parsed.value().variables == expected);
  CHECK(parse_arguments({"--log-hide-timestamp", "p"}).value().variables.at("RUEDA_LOG_HIDE_TIME") == "1");
  for (const char* flag : {"--log-with-timestamp", "--no-log-hide-timestamp"})
    CHECK(parse_arguments({flag, "p"}).value().variables.at("RUEDA_LOG_HIDE_TIME") == "0");
  CHECK(sentence({"-np", "2", "--num-proc", "4", "p"}) == "--num-proc is given twice");
}

TEST_CASE("flags of horovodrun without a meaning are accepted, each with a reason") {
  for (const char* flag : {"--gloo", "--disable-cache", "--torus-allreduce", "--no-torus-allreduce",
                           "--mpi-threads-disable", "--no-mpi-threads-disable"}) {
    const auto parsed = parse_arguments({flag, "-np", "2", "p"});
    REQUIRE(parsed.ok());
    REQUIRE(parsed.value().without_meaning.size() == 1);
    CHECK(parsed.value().without_meaning.front().find(std::string(flag) + " (") == 0);
    CHECK(parsed.value().variables.empty());
  }
  for (const char* flag :
       {"--cycle-time-ms", "--autotune-warmup-samples", "--autotune-steps-per-sample",
        "--autotune-bayes-opt-max-samples", "--autotune-gaussian-process-noise", "--num-nccl-streams"}) {
    const auto parsed = parse_arguments({flag, "5", "-np", "2", "p"});
    REQUIRE(parsed.ok());
    REQUIRE(parsed.value().without_meaning.size() == 1);
    CHECK(parsed.value().without_meaning.front().find(std::string(flag) + " (") == 0);
    CHECK(parsed.value().command == std::vector<std::string>{"p"});
  }
}

TEST_CASE("horovodrun's flags for tuning set Rueda's variables") {
  const auto parsed = parse_arguments({"--autotune", "--autotune-log-file", "t.csv", "-np", "2", "p"});
  REQUIRE(parsed.ok());
  const std::map<std::string, std::string> expected = {{"RUEDA_AUTOTUNE", "1"}, {"RUEDA_AUTOTUNE_LOG", "t.csv"}};
  CHECK(parsed.value().variables == expected);
  CHECK(parse_arguments({"--autotune-check", "p"}).value().variables.at("RUEDA_AUTOTUNE_CHECK") == "1");
  CHECK(parse_arguments({"--no-autotune", "p"}).value().variables.at("RUEDA_AUTOTUNE") == "0");
}

TEST_CASE("a flag of horovodrun that would start another job is refused with what to do instead") {
  CHECK(sentence({"--jsrun", "p"}).find("--jsrun: hvdrun does not start ranks with jsrun; leave it out") == 0);
  CHECK(sentence({"-m", "module"}).find("write `hvdrun -np 2 python -m module`") != std::string::npos);
}

TEST_CASE("hvdrun refuses a mistyped flag and suggests the nearest") {
  CHECK(sentence({"--fusion-treshold-mb", "3", "p"}) ==
        "there is no flag --fusion-treshold-mb; did you mean --fusion-threshold-mb?");
  CHECK(sentence({"--verbsoe", "p"}) == "there is no flag --verbsoe; did you mean --verbose?");
  CHECK(sentence({"--hostflie=x", "p"}) == "there is no flag --hostflie; did you mean -hostfile?");
  CHECK(sentence({"--qqqqqqqq", "p"}) == "there is no flag --qqqqqqqq; hvdrun --help lists them");
}

TEST_CASE("hvdrun refuses a value that does not parse and names flag and value") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-np", "0", "p"}, std::vector<std::string>{"-np", "two", "p"}}) {
    CHECK(sentence(words).find(words[1]) != std::string::npos);
  }
  CHECK(sentence({"--cache-capacity", "lots", "p"}).find("lots") != std::string::npos);
  CHECK(sentence({"--cache-capacity", "lots", "p"}).find("--cache-capacity") == 0);
  CHECK(sentence({"--fusion-threshold-mb", "lots", "p"}) == "--fusion-threshold-mb: \"lots\" is not a number of MiB");
  CHECK(sentence({"--grace-seconds", "-1", "p"}).find("-1") != std::string::npos);
  CHECK(sentence({"-np"}) == "-np needs a value after it");
  CHECK(sentence({"-np", "two", "p"}).find("-np: ") == 0);
}

TEST_CASE("help and completion name the flag of every setting") {
  const std::string help = parse_arguments({"--help"}).value().text;
  const std::string completion = parse_arguments({"--completion", "bash"}).value().text;
  for (const auto& knob : knobs()) {
    if (knob.flag_kind == FlagKind::kNone) continue;
    INFO(knob.flag);
    CHECK(help.find("--" + std::string(knob.flag)) != std::string::npos);
    CHECK(completion.find("--" + std::string(knob.flag)) != std::string::npos);
  }
  CHECK(help.find("--agent") == std::string::npos);
  CHECK(help.find("hvdrun starts the ranks") == 0);
  CHECK(help.find("Usage: hvdrun [flags] program") != std::string::npos);
  CHECK(completion.find("complete -F _hvdrun hvdrun") != std::string::npos);
}

TEST_CASE("a flag with a value must be given once and not empty") {
  CHECK(sentence({"-np", "2", "-np", "4", "p"}) == "-np is given twice");
  CHECK(sentence({"-np", "2", "--np=4", "p"}) == "--np is given twice");
  CHECK(sentence({"--compression=fp16", "--compression=none", "p"}) == "--compression is given twice");
  CHECK(parse_arguments({"--verbose", "--verbose", "p"}).ok());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-np", "2", "-H", "", "p"}, std::vector<std::string>{"-np", "2", "--hosts=", "p"}}) {
    CHECK(sentence(words) == (words[2] == "-H" ? "-H has an empty value" : "--hosts has an empty value"));
  }
}

TEST_CASE("the nearest name has few swapped, missing or extra letters") {
  const std::vector<std::string> known = {"--alpha", "--beta", "--gamma"};
  CHECK(nearest_name("--aplha", known) == "--alpha");
  CHECK(nearest_name("--bet", known) == "--beta");
  CHECK(nearest_name("--gammma", known) == "--gamma");
  CHECK(nearest_name("--zzzzz", known).empty());
}

TEST_CASE("flags of elastic jobs are read under both of their names") {
  const auto read = [](const std::vector<std::string>& words) {
    const auto arguments = parse_arguments(words);
    REQUIRE(arguments.ok());
    return arguments.value().elastic;
  };
  CHECK_FALSE(read({"p"}).elastic());
  CHECK(read({"--min-np", "2", "p"}).elastic());
  CHECK(read({"--host-discovery-script", "hosts.sh", "p"}).script == "hosts.sh");
  const auto all = read({"--min-num-proc", "2", "--max-num-proc", "4", "--slots", "3", "--elastic-timeout", "0.5",
                         "--reset-limit", "0", "--blacklist-cooldown-range", "5", "10", "--blacklist-after", "1",
                         "--rejoin-timeout=7", "--admit", "discovered", "p"});
  CHECK(all.least == 2);
  CHECK(all.most == 4);
  CHECK(all.slots_per_host == 3);
  CHECK(all.timeout_seconds == 0.5);
  CHECK(all.reset_limit == 0);
  CHECK(all.cooldown_seconds == std::pair(5, 10));
  CHECK(all.blacklist_after == 1);
  CHECK(all.rejoin_timeout_seconds == 7);
  CHECK(all.admission == Admission::kDiscovered);
  CHECK(parse_arguments({"--min-np", "0", "p"}).status().sentence().find("--min-np: ") == 0);
  CHECK_FALSE(parse_arguments({"--blacklist-cooldown-range", "5", "p"}).ok());
}
