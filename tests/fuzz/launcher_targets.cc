// What hvdrun and its agents read: messages on an agent's link, notices of changes, and what users and batch systems
// write: hosts, host files, allocations, config files, command lines.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <map>
#include <set>

#include "launcher/allocation.h"
#include "launcher/arguments.h"
#include "launcher/config_file.h"
#include "launcher/event_loop.h"
#include "launcher/hosts.h"
#include "launcher/messages.h"
#include "launcher/notice_desk.h"
#include "runtime/net/unix_socket.h"
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

void check_allocation(std::map<std::string, std::string> variables) {
  const auto allocation = read_allocation(Environment(std::move(variables)));
  if (!allocation.ok()) return hold(!allocation.status().sentence().empty());
  if (!allocation.value()) return;
  hold(!allocation.value()->hosts.empty());
  for (const HostSlots& host : allocation.value()->hosts) {
    hold(host.slots > 0 && !host.name.empty() && host.name.front() != '-');
    hold(host.name.find_first_of(" \t\n") == std::string::npos);
  }
}

/// What each batch system says of its hosts; the first byte picks the system. Slurm's list is a line, and the numbers
/// of tasks are the rest.
void fuzz_allocation(Bytes bytes) {
  if (bytes.empty()) return;
  const std::string text(text_of(bytes.subspan(1)));
  const size_t line = std::min(text.find('\n'), text.size());
  switch (std::to_integer<unsigned>(bytes[0]) % 3) {
    case 0: return check_allocation({{"LSB_MCPU_HOSTS", text}});
    case 1:
      return check_allocation({{"SLURM_JOB_NODELIST", text.substr(0, line)},
                               {"SLURM_TASKS_PER_NODE", text.substr(std::min(line + 1, text.size()))}});
    default: break;
  }
  static const UniqueFd file(::memfd_create("nodes", MFD_CLOEXEC));
  hold(::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), text.data(), text.size(), 0) >= 0);
  check_allocation({{"PBS_NODEFILE", "/proc/self/fd/" + std::to_string(file.get())}});
}

/// A visitor at hvdrun's desk. Each gets one answer, and only the two notices are passed on, as they are.
void fuzz_notice_desk(Bytes bytes) {
  if (bytes.empty()) return;  // no packet at all
  static std::string taken;
  static EventLoop loop;
  static NoticeDesk desk(loop, {[](const std::string& host) -> Result<std::string> {
                                  taken = "R" + host;
                                  return std::string("gone");
                                },
                                []() -> Result<std::string> {
                                  taken = "H";
                                  return std::string("changed");
                                }});
  static const bool open = desk.open().ok();
  hold(open);
  taken.clear();
  const DialledSocket visitor = dial_abstract("rueda-notice-" + std::to_string(::getpid()));
  hold(visitor.error == 0);
  send_packet(visitor.fd.get(), bytes);
  Packet answer;
  for (int turn = 0; turn < 1000 && answer.kind == PacketKind::kNone; ++turn) {
    loop.io().restart();
    loop.io().poll();
    answer = receive_packet(visitor.fd.get(), 8192, 0);
  }
  hold(answer.kind == PacketKind::kPacket && !answer.bytes.empty());
  hold((answer.bytes[0] == std::byte{'0'}) == !taken.empty());
  hold(taken.empty() || text_of(bytes).starts_with(taken));
}

constexpr Target kLauncherTargets[] = {
    {"start_order", fuzz_start_order},
    {"rank_order", fuzz_rank_order},
    {"introduction", fuzz_introduction},
    {"agent_stream", fuzz_agent_stream},
    {"hosts", fuzz_hosts},
    {"hostfile", fuzz_hostfile},
    {"discovered", fuzz_discovered},
    {"config", fuzz_config},
    {"arguments", fuzz_arguments},
    {"allocation", fuzz_allocation},
    {"notice_desk", fuzz_notice_desk},
};

}  // namespace

std::span<const Target> launcher_targets() { return kLauncherTargets; }

}  // namespace rueda::fuzz
