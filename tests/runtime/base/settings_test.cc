#include "runtime/base/settings.h"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/unread_variables.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

Result<Settings> read(std::map<std::string, std::string> variables) {
  return read_settings(Environment(std::move(variables)));
}

std::string failure(std::map<std::string, std::string> variables) {
  const auto settings = read(std::move(variables));
  REQUIRE_FALSE(settings.ok());
  CHECK(settings.status().code() == Code::kInvalidArgument);
  return settings.status().sentence();
}

/// The lines about those of these variables that nobody reads, with their levels.
std::vector<std::pair<LogLevel, std::string>> lines(std::map<std::string, std::string> variables) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  set_log_sink([&](LogLevel level, std::string_view line) { seen.emplace_back(level, line); });
  set_log_level(LogLevel::kInfo, false);
  report_unread(Environment(std::move(variables)));
  set_log_sink({});
  set_log_level(LogLevel::kWarning, false);
  return seen;
}

TEST_CASE("the choices of a knob are the words that it takes and says it takes") {
  int knobs_with_choices = 0;
  for (const Knob& knob : knobs()) {
    if (*knob.choices == 0) continue;
    ++knobs_with_choices;
    INFO(knob.variable);
    Settings settings;
    std::istringstream words(knob.choices);
    std::string listed;
    for (std::string word; words >> word;) {
      CHECK(knob.parse(word, settings).ok());
      CHECK(knob.print(settings) == word);
      listed += (listed.empty() ? "" : ", ") + word;
    }
    CHECK(knob.parse("?", settings).sentence() == "\"?\" is not allowed; allowed: " + listed);
  }
  CHECK(knobs_with_choices == 9);
}

TEST_CASE("without variables every setting has its documented default") {
  const Settings settings = read({}).value();
  CHECK(settings.fusion_threshold == 64u << 20);
  CHECK(settings.cache_capacity == 65536);
  CHECK(settings.hierarchical_allreduce == Choice::kAuto);
  CHECK(settings.allreduce_algorithm == "auto");
  CHECK(settings.compression == CodecId::kNone);
  CHECK_FALSE(settings.deterministic);
  CHECK(settings.timeout.count() == 600);
  CHECK(settings.init_timeout.count() == 30);
  CHECK(settings.peer_timeout.count() == 5);
  CHECK(settings.num_lanes == 4);
  CHECK(settings.caller_progress);
  CHECK(settings.spread_ranks);
  CHECK(settings.early_inputs);
  CHECK_FALSE(settings.insecure);
  CHECK(settings.log_level == static_cast<int>(LogLevel::kWarning));
}

TEST_CASE("each variable reaches its setting") {
  const Settings settings = read({{"RUEDA_FUSION_THRESHOLD", "32MiB"},
                                  {"RUEDA_CACHE_CAPACITY", "0"},
                                  {"RUEDA_HIERARCHICAL_ALLREDUCE", "1"},
                                  {"RUEDA_HIERARCHICAL_ALLGATHER", "0"},
                                  {"RUEDA_ALLREDUCE_ALGORITHM", "ring"},
                                  {"RUEDA_BROADCAST_ALGORITHM", "broadcast_tree"},
                                  {"RUEDA_CONTROLLER", "TCP"},
                                  {"RUEDA_CONTROL_TREE", "1"},
                                  {"RUEDA_CPU_OPERATIONS", "mpi"},
                                  {"RUEDA_COMPRESSION", "bf16"},
                                  {"RUEDA_DETERMINISTIC", "yes"},
                                  {"RUEDA_TIMEOUT_SECONDS", "0"},
                                  {"RUEDA_INIT_TIMEOUT_SECONDS", "2.5"},
                                  {"RUEDA_PEER_TIMEOUT_SECONDS", "7"},
                                  {"RUEDA_THREAD_AFFINITY", "0,2,8-11"},
                                  {"RUEDA_NUM_LANES", "16"},
                                  {"RUEDA_CALLER_PROGRESS", "off"},
                                  {"RUEDA_SPREAD_RANKS", "0"},
                                  {"RUEDA_EARLY_INPUTS", "0"},
                                  {"RUEDA_INSECURE", "1"},
                                  {"RUEDA_TLS", "all"},
                                  {"RUEDA_NETWORK_INTERFACES", "eth0,10.1.0.0/16"},
                                  {"RUEDA_LOG_LEVEL", "Debug"},
                                  {"RUEDA_LOG_HIDE_TIME", "1"}})
                                .value();
  CHECK(settings.fusion_threshold == 32u << 20);
  CHECK(settings.cache_capacity == 0);
  CHECK(settings.hierarchical_allreduce == Choice::kForce);
  CHECK(settings.hierarchical_allgather == Choice::kForbid);
  CHECK(settings.allreduce_algorithm == "ring");
  CHECK(settings.broadcast_algorithm == "broadcast_tree");
  CHECK(settings.controller == "tcp");
  CHECK(settings.control_tree == Choice::kForce);
  CHECK(settings.cpu_operations == "mpi");
  CHECK(settings.compression == CodecId::kBf16);
  CHECK(settings.deterministic);
  CHECK(settings.timeout.count() == 0);
  CHECK(settings.init_timeout.count() == 2.5);
  CHECK(settings.peer_timeout.count() == 7);
  CHECK(settings.thread_affinity == std::vector<int>{0, 2, 8, 9, 10, 11});
  CHECK(settings.num_lanes == 16);
  CHECK_FALSE(settings.caller_progress);
  CHECK_FALSE(settings.spread_ranks);
  CHECK_FALSE(settings.early_inputs);
  CHECK(settings.insecure);
  CHECK(settings.tls_all);
  CHECK(settings.network_interfaces == "eth0,10.1.0.0/16");
  CHECK(settings.log_level == static_cast<int>(LogLevel::kDebug));
  CHECK(settings.log_hide_time);
}

TEST_CASE("a value that does not parse is an error that names variable, value and what is allowed") {
  CHECK(
      failure({{"RUEDA_FUSION_THRESHOLD", "lots"}}) ==
      "RUEDA_FUSION_THRESHOLD: \"lots\" is not allowed; allowed: bytes with an optional unit, as in 1048576, 64MiB, 64 "
      "MB, 1GiB");
  const std::vector<std::pair<std::string, std::string>> nonsense = {
      {"CACHE_CAPACITY", "-1"},
      {"CACHE_CAPACITY", "1e3"},
      {"HIERARCHICAL_ALLREDUCE", "2"},
      {"ALLREDUCE_ALGORITHM", "R"},
      {"CONTROLLER", "pigeons"},
      {"COMPRESSION", "fp8"},
      {"DETERMINISTIC", "maybe"},
      {"TIMEOUT_SECONDS", "-1"},
      {"TIMEOUT_SECONDS", "-0"},
      {"TIMEOUT_SECONDS", "nan"},
      {"TIMEOUT_SECONDS", "inf"},
      {"TIMEOUT_SECONDS", "5s"},
      {"THREAD_AFFINITY", "1,,2"},
      {"THREAD_AFFINITY", "3-1"},
      {"THREAD_AFFINITY", "1,1"},
      {"THREAD_AFFINITY", "0-4096"},
      {"NUM_LANES", "0"},
      {"NUM_LANES", "17"},
      {"TLS", "none"},
      {"NETWORK_INTERFACES", " "},
      {"LOG_LEVEL", "loud"},
      {"FUSION_THRESHOLD", "-1"},
      {"FUSION_THRESHOLD", "MiB"},
      {"FUSION_THRESHOLD", "1 PiB"},
      {"FUSION_THRESHOLD", "9999999999999999999999"},
      {"FUSION_THRESHOLD", "9999999999 GiB"},
  };
  for (const auto& [name, value] : nonsense) {
    CAPTURE(name, value);
    CHECK_THAT(failure({{"RUEDA_" + name, value}}),
               Contains("RUEDA_" + name) && Contains("\"" + value + "\"") && Contains("allowed:"));
  }
}

TEST_CASE("settings of diagnosis reach their places, and what cannot be meant is refused") {
  const Settings settings =
      read({{"RUEDA_METRICS_PORT", "9100"}, {"RUEDA_METRICS_ADDRESS", "0.0.0.0"}, {"RUEDA_DUMP_FILE", "/tmp/r{rank}"}})
          .value();
  CHECK(settings.metrics_port == 9100);
  CHECK(settings.metrics_address == "0.0.0.0");
  CHECK(settings.dump_file == "/tmp/r{rank}");
  CHECK_THAT(failure({{"RUEDA_METRICS_PORT", "65536"}}), Contains("65536") && Contains("0 to 65535"));
  CHECK_THAT(failure({{"RUEDA_DUMP_FILE", "a\nb"}}), Contains("RUEDA_DUMP_FILE") && Contains("printable"));
}

TEST_CASE("RUEDA_ wins over HOROVOD_, which counts where the meaning is the same") {
  CHECK(read({{"HOROVOD_FUSION_THRESHOLD", "1024"}}).value().fusion_threshold == 1024);
  CHECK(read({{"HOROVOD_FUSION_THRESHOLD", "1024"}, {"RUEDA_FUSION_THRESHOLD", "2048"}}).value().fusion_threshold ==
        2048);
  CHECK(read({{"HOROVOD_CPU_OPERATIONS", "GLOO"}}).value().cpu_operations == "tcp");
  CHECK_THAT(failure({{"HOROVOD_FUSION_THRESHOLD", "x"}}), Contains("HOROVOD_FUSION_THRESHOLD"));
  // Not the same meaning: RUEDA_NUM_LANES has no Horovod counterpart.
  CHECK(read({{"HOROVOD_NUM_LANES", "x"}}).value().num_lanes == 4);
}

TEST_CASE("HOROVOD_GLOO_TIMEOUT_SECONDS limits the wait for a peer that does not answer, not that for a late rank") {
  const std::pair<const std::string, std::string> theirs = {"HOROVOD_GLOO_TIMEOUT_SECONDS", "90"};
  const auto settings = read({theirs}).value();
  CHECK(settings.peer_timeout.count() == 90);
  CHECK(settings.timeout.count() == 600);
  CHECK(read({theirs, {"RUEDA_PEER_TIMEOUT_SECONDS", "7"}}).value().peer_timeout.count() == 7);
  CHECK_THAT(failure({{"HOROVOD_GLOO_TIMEOUT_SECONDS", "x"}}), Contains("HOROVOD_GLOO_TIMEOUT_SECONDS"));
  // Horovod has no variable of our name.
  CHECK(read({{"HOROVOD_PEER_TIMEOUT_SECONDS", "90"}}).value().peer_timeout.count() == 5);
}

TEST_CASE("tuning is on, and Horovod's variables switch it and name its log") {
  CHECK(read({}).value().autotune);
  CHECK_FALSE(read({{"HOROVOD_AUTOTUNE", "0"}}).value().autotune);
  CHECK(read({{"HOROVOD_AUTOTUNE", "0"}, {"RUEDA_AUTOTUNE", "1"}}).value().autotune);
  CHECK(read({{"HOROVOD_AUTOTUNE_LOG", "t.csv"}}).value().autotune_log == "t.csv");
  CHECK(read({{"RUEDA_TUNE_FILE", "t.json"}}).value().tune_file == "t.json");
}

TEST_CASE("stores and the longest chunk take what is allowed and nothing else") {
  CHECK(read({{"RUEDA_STORES", "Plain"}, {"RUEDA_CHUNK_BYTES", "128KiB"}}).value().stores == Stores::kPlain);
  CHECK(read({{"RUEDA_STORES", "non-temporal"}}).value().stores == Stores::kNonTemporal);
  CHECK(read({{"RUEDA_CHUNK_BYTES", "128KiB"}}).value().chunk_bytes == 128 << 10);
  CHECK_THAT(failure({{"RUEDA_STORES", "fast"}}), Contains("RUEDA_STORES") && Contains("auto, plain, non-temporal"));
  CHECK_THAT(failure({{"RUEDA_CHUNK_BYTES", "4096"}}), Contains("RUEDA_CHUNK_BYTES") && Contains("64KiB"));
}

TEST_CASE("waits and slots take what is allowed and nothing else") {
  CHECK((read({}).value().waits == Waits::kChosen && read({}).value().lane_slots == 0));
  CHECK(read({{"RUEDA_WAITS", "Sleep"}}).value().waits == Waits::kSleep);
  CHECK(read({{"RUEDA_WAITS", "spin"}}).value().waits == Waits::kSpin);
  CHECK(read({{"RUEDA_LANE_SLOTS", "2"}}).value().lane_slots == 2);
  CHECK(read({{"RUEDA_LANE_SLOTS", "auto"}}).value().lane_slots == 0);
  CHECK_THAT(failure({{"RUEDA_WAITS", "doze"}}), Contains("RUEDA_WAITS") && Contains("auto, spin, sleep"));
  for (const char* const slots : {"1", "5", "02", "two"})
    CHECK_THAT(failure({{"RUEDA_LANE_SLOTS", slots}}), Contains("RUEDA_LANE_SLOTS") && Contains("auto, 2, 3, 4"));
}

TEST_CASE("a number of sockets is chosen unless it is named") {
  CHECK(read({}).value().sockets_per_peer == 0);
  CHECK(read({{"RUEDA_SOCKETS_PER_PEER", "auto"}}).value().sockets_per_peer == 0);
  CHECK(read({{"RUEDA_SOCKETS_PER_PEER", "1"}}).value().sockets_per_peer == 1);
  CHECK(read({{"RUEDA_SOCKETS_PER_PEER", "16"}}).value().sockets_per_peer == 16);
  for (const char* const sockets : {"0", "17", "01x"})
    CHECK_THAT(failure({{"RUEDA_SOCKETS_PER_PEER", sockets}}), Contains("auto, 1 to 16"));
}

TEST_CASE("an empty value counts as unset") {
  CHECK(read({{"RUEDA_NUM_LANES", ""}}).value().num_lanes == 4);
  CHECK(read({{"RUEDA_FUSION_THRESHOLD", ""}, {"HOROVOD_FUSION_THRESHOLD", "7"}}).value().fusion_threshold == 7);
}

TEST_CASE("Horovod's names without a meaning here are said in one line at info") {
  const auto seen = lines({{"HOROVOD_CYCLE_TIME", "1"},
                           {"HOROVOD_AUTOTUNE", "1"},
                           {"HOROVOD_AUTOTUNE_LOG", "f"},
                           {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "3"},
                           {"HOROVOD_RANK", "0"},
                           {"HOROVOD_GLOO_TIMEOUT_SECONDS", "60"},
                           {"HOROVOD_FUSION_THRESHOLD", "1"}});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].first == LogLevel::kInfo);
  CHECK(seen[0].second == "set, but without a meaning here: HOROVOD_AUTOTUNE_WARMUP_SAMPLES, HOROVOD_CYCLE_TIME");
}

TEST_CASE("an unknown RUEDA_ name is a warning that offers the closest known one") {
  auto seen = lines({{"RUEDA_FUSION_TRESHOLD", "1"}, {"RUEDA_RANK", "0"}});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].first == LogLevel::kWarning);
  CHECK_THAT(seen[0].second, Contains("did you mean RUEDA_FUSION_THRESHOLD?"));
  seen = lines({{"RUEDA_XYLOPHONE", "1"}});
  REQUIRE(seen.size() == 1);
  CHECK_THAT(seen[0].second, Contains("RUEDA_XYLOPHONE") && !Contains("did you mean"));
}

TEST_CASE("every knob prints text that it parses to the same value") {
  Settings odd = read({{"RUEDA_FUSION_THRESHOLD", "12345"},
                       {"RUEDA_TIMEOUT_SECONDS", "0.000001"},
                       {"RUEDA_HIERARCHICAL_ALLREDUCE", "0"},
                       {"RUEDA_COMPRESSION", "fp16"},
                       {"RUEDA_TLS", "all"},
                       {"RUEDA_THREAD_AFFINITY", "3,1"},
                       {"RUEDA_LOG_LEVEL", "fatal"}})
                     .value();
  for (const Settings& source : {Settings(), odd}) {
    for (const Knob& knob : knobs()) {
      const std::string text = knob.print(source);
      if (text.empty()) continue;  // no cores given: there is nothing to say
      CAPTURE(knob.variable, text);
      Settings copy;
      CHECK(knob.parse(text, copy).ok());
      CHECK(knob.print(copy) == text);
    }
  }
}

TEST_CASE("names and flags of knobs are there once") {
  std::set<std::string> names;
  std::set<std::string> flags;
  for (const Knob& knob : knobs()) {
    CAPTURE(knob.variable);
    CHECK(names.insert(knob.variable).second);
    CHECK((knob.flag_kind == FlagKind::kNone) == std::string(knob.flag).empty());
    if (knob.flag_kind != FlagKind::kNone) CHECK(flags.insert(knob.flag).second);
    CHECK_FALSE(std::string(knob.help).empty());
  }
}

TEST_CASE("agreed settings travel as text and nothing else changes") {
  Settings rank_zero =
      read({{"RUEDA_FUSION_THRESHOLD", "0"}, {"RUEDA_NUM_LANES", "2"}, {"RUEDA_LOG_LEVEL", "trace"}}).value();
  Settings mine = read({{"RUEDA_CALLER_PROGRESS", "0"}}).value();
  REQUIRE(apply_agreed(print_agreed(rank_zero), mine).ok());
  CHECK(mine.fusion_threshold == 0);
  CHECK(mine.num_lanes == 2);
  CHECK_FALSE(mine.caller_progress);
  CHECK(mine.log_level == static_cast<int>(LogLevel::kWarning));
}

TEST_CASE("agreed text that is not ours is refused and changes nothing") {
  for (const std::string text :
       {"FUSION_THRESHOLD", "NO_SUCH=1\n", "LOG_LEVEL=info\n", "NUM_LANES=2\nFUSION_THRESHOLD=x\n", "\n", "=1\n"}) {
    CAPTURE(text);
    Settings settings;
    CHECK(apply_agreed(text, settings).code() == Code::kInvalidArgument);
    CHECK(settings.num_lanes == 4);
  }
}

TEST_CASE("bytes take units: MiB and M are 1024 based, MB is 1000 based") {
  CHECK(parse_bytes("0").value() == 0);
  CHECK(parse_bytes("1048576").value() == 1048576);
  CHECK(parse_bytes("64MiB").value() == 64u << 20);
  CHECK(parse_bytes("64 MB").value() == 64'000'000);
  CHECK(parse_bytes("256m").value() == 256u << 20);
  CHECK(parse_bytes("1GiB").value() == 1u << 30);
  CHECK(parse_bytes("8B").value() == 8);
  CHECK(parse_bytes("2TiB").value() == uint64_t{2} << 40);
  for (const std::string text : {"", " ", "MiB", "1.5GiB", "1 Mi", "1 MBs", "+1", "0x10", "1M B", " 1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text).ok());
  }
}

}  // namespace
}  // namespace rueda::core
