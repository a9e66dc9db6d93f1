// What hvdrun and its agents read: messages on an agent's link, and what users write: hosts, host files, config files,
// command lines.
#include <algorithm>
#include <set>

#include "launcher/arguments.h"
#include "launcher/config_file.h"
#include "launcher/hosts.h"
#include "launcher/messages.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;
using namespace rueda::core::launcher;

void fuzz_start_order(Bytes bytes) {
  const auto order = decode_start_order(text_of(bytes));
  if (!order) return;
  hold_round_trip(
      *order, [](const StartOrder& one) { return encode(one); },
      [](const std::string& text) { return decode_start_order(text); });
}

void fuzz_rank_order(Bytes bytes) {
  const auto order = decode_rank_order(text_of(bytes));
  if (!order) return;
  hold_round_trip(
      *order, [](const RankOrder& one) { return encode(one); },
      [](const std::string& text) { return decode_rank_order(text); });
}

void fuzz_introduction(Bytes bytes) {
  const auto introduction = decode_introduction(text_of(bytes));
  if (!introduction) return;
  hold_round_trip(
      *introduction, [](const Introduction& one) { return encode(one); },
      [](const std::string& text) { return decode_introduction(text); });
}

/// A stream of messages in portions of different lengths, behind whatever a login shell printed.
void fuzz_agent_stream(Bytes bytes) {
  if (bytes.empty()) return;
  MessageReader reader(std::to_integer<int>(bytes[0]) % 2 == 0 ? MessageReader::Greeting::kNone
                                                               : MessageReader::Greeting::kMagicFirst);
  const size_t step = 1 + std::to_integer<size_t>(bytes[0]) / 2;
  for (size_t at = 1; at < bytes.size(); at += step) {
    reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
    for (;;) {
      const auto next = reader.next();
      if (!next.ok()) return hold(!next.status().sentence().empty());
      if (!next.value()) break;
      hold(next.value()->bytes.size() <= bytes.size());
    }
  }
  static_cast<void>(reader.ungreeted());
}

void fuzz_hosts(Bytes bytes) {
  const auto hosts = parse_hosts(text_of(bytes));
  if (!hosts.ok()) return;
  for (const HostSlots& host : hosts.value()) hold(host.slots > 0 && !host.name.empty() && host.name.front() != '-');
}

void fuzz_hostfile(Bytes bytes) {
  const auto hosts = parse_hostfile(text_of(bytes));
  if (!hosts.ok()) return;
  for (const HostSlots& host : hosts.value()) hold(host.slots > 0 && !host.name.empty() && host.name.front() != '-');
}

/// What a host discovery script prints.
void fuzz_discovered(Bytes bytes) {
  const auto hosts = parse_discovered_hosts(text_of(bytes), 3);
  if (!hosts.ok()) return hold(!hosts.status().sentence().empty());
  std::set<std::string> names;
  for (const HostSlots& host : hosts.value()) {
    hold(host.slots > 0 && !host.name.empty() && host.name.front() != '-');
    hold(names.insert(host.name).second);
  }
}

void fuzz_config(Bytes bytes) {
  static const ConfigVocabulary vocabulary{{"np", "hosts", "hostfile", "fusion-threshold-mb"},
                                           {"verbose", "hierarchical-allreduce", "no-hierarchical-allreduce"}};
  const auto words = config_words(std::string(text_of(bytes)), vocabulary, {"verbose"});
  if (!words.ok()) hold(!words.status().sentence().empty());
}

/// A command line: its words are separated by zero bytes.
void fuzz_arguments(Bytes bytes) {
  std::vector<std::string> words;
  for (std::string_view text = text_of(bytes); !text.empty();) {
    const size_t end = text.find('\0');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  // These read files that the words name.
  const auto names_file = [](const std::string& word) {
    return word.rfind("--hostfile", 0) == 0 || word.rfind("-hostfile", 0) == 0 || word.rfind("--config-file", 0) == 0;
  };
  if (std::any_of(words.begin(), words.end(), names_file)) return;
  const auto arguments = parse_arguments(words);
  if (!arguments.ok()) hold(!arguments.status().sentence().empty());
}

constexpr Target kLauncherTargets[] = {
    {"start_order", fuzz_start_order},   {"rank_order", fuzz_rank_order}, {"introduction", fuzz_introduction},
    {"agent_stream", fuzz_agent_stream}, {"hosts", fuzz_hosts},           {"hostfile", fuzz_hostfile},
    {"discovered", fuzz_discovered},     {"config", fuzz_config},         {"arguments", fuzz_arguments},
};

}  // namespace

std::span<const Target> launcher_targets() { return kLauncherTargets; }

}  // namespace rueda::fuzz
