// Text to value and back for each type of knob. A value is accepted whole or refused with a sentence that quotes it and
// says what is allowed; nothing is clamped or guessed, because a job that runs with another value than the user wrote
// is worse than one that does not start.
#include "runtime/base/knob_values.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <string_view>
#include <utility>

namespace rueda::core {
namespace {

constexpr const char* kLogLevels[] = {"trace", "debug", "info", "warning", "error", "fatal", "off"};
constexpr int kMaxCores = 1024;

Status refuse(const std::string& text, const char* allowed) {
  return {Code::kInvalidArgument, fmt::format("\"{}\" is not allowed; {}", text, allowed)};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

/// Returns whether all of `text` is a decimal number that fits in `value`. No sign, no blanks.
template <typename T>
bool whole_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && text.front() != '-';
}

/// Returns how many bytes a unit stands for, or 0 if there is no such unit. "k" and "KiB" are 1024, "kB" is 1000.
uint64_t unit_bytes(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t power = kPrefixes.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string tail = unit.substr(1);
  const bool decimal = tail == "b";
  if (!decimal && !tail.empty() && tail != "ib") return 0;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= decimal ? 1000 : 1024;
  return bytes;
}

/// Appends the cores from `first` to `last`. Returns false if one is out of range or already in the list.
bool append_cores(int first, int last, std::vector<int>& cores) {
  if (first > last || last >= kMaxCores) return false;
  for (int core = first; core <= last; ++core) {
    if (std::find(cores.begin(), cores.end(), core) != cores.end()) return false;
    cores.push_back(core);
  }
  return true;
}

}  // namespace

Result<uint64_t> parse_bytes(const std::string& text) {
  constexpr const char* kAllowed = "allowed: bytes with an optional unit, as in 1048576, 64MiB, 64 MB, 1GiB";
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
  uint64_t number = 0;
  // Between number and unit blanks are allowed, as in "64 MB".
  const uint64_t factor = unit_bytes(lower(text.substr(unit)));
  if (factor == 0 || !whole_number(std::string_view(text).substr(0, digits), number)) return refuse(text, kAllowed);
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / factor) {
    return refuse(text, "allowed: at most 2^63-1 bytes");
  }
  return number * factor;
}

Result<bool> parse_switch(const std::string& text) {
  const std::string word = lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return refuse(text, "allowed: 1 or 0");
}
std::string print_switch(bool value) { return value ? "1" : "0"; }

Result<Choice> parse_choice(const std::string& text) {
  if (lower(text) == "auto") return Choice::kAuto;
  const auto on = parse_switch(text);
  if (!on.ok()) return refuse(text, "allowed: 1, 0 or auto");
  return on.value() ? Choice::kForce : Choice::kForbid;
}
std::string print_choice(Choice value) {
  return value == Choice::kAuto ? "auto" : print_switch(value == Choice::kForce);
}

Result<uint64_t> parse_count(const std::string& text) {
  uint64_t value = 0;
  if (!whole_number(text, value) || value > uint64_t{1} << 32) {
    return refuse(text, "allowed: a whole number from 0 to 4294967296");
  }
  return value;
}
std::string print_count(uint64_t value) { return std::to_string(value); }

Result<std::chrono::duration<double>> parse_seconds(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  // from_chars takes "inf" and "nan"; neither is a time. -0 has a sign and is refused with the negative numbers.
  const bool number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (!number || std::signbit(value) || value > 366.0 * 86400) {
    return refuse(text, "allowed: seconds, from 0 to 31622400, as in 30 or 0.5");
  }
  return std::chrono::duration<double>(value);
}
std::string print_seconds(std::chrono::duration<double> value) { return fmt::format("{}", value.count()); }

Result<std::vector<int>> parse_cores(const std::string& text) {
  std::vector<int> cores;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    int first = 0;
    int last = 0;
    const bool number = whole_number(item.substr(0, dash), first);
    const bool range = dash == item.npos ? (last = first, number) : number && whole_number(item.substr(dash + 1), last);
    if (!range || !append_cores(first, last, cores)) {
      return refuse(text, "allowed: core numbers below 1024, each once, as in 0,2,8-11");
    }
    more = comma != rest.npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  return cores;
}
std::string print_cores(const std::vector<int>& value) { return fmt::format("{}", fmt::join(value, ",")); }

Result<int> parse_lanes(const std::string& text) {
  int value = 0;
  if (!whole_number(text, value) || value < 1 || value > 16) return refuse(text, "allowed: 1 to 16");
  return value;
}
std::string print_lanes(int value) { return std::to_string(value); }

Result<int> parse_sockets(const std::string& text) {
  if (lower(text) == "auto") return 0;
  int value = 0;
  if (!whole_number(text, value) || value < 1 || value > 16) return refuse(text, "allowed: auto, 1 to 16");
  return value;
}
std::string print_sockets(int value) { return value == 0 ? "auto" : std::to_string(value); }

Result<std::string> parse_algorithm(const std::string& text) {
  // Only the form is checked here. Whether the table has it, the selector knows, which the runtime's base cannot see.
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  if (text.empty() || text.size() > 64 || text.find_first_not_of(kLetters) != text.npos) {
    return refuse(text, "allowed: auto or an algorithm's name, as in ring or shm_two_shot");
  }
  return text;
}

Result<std::string> parse_transport(const std::string& text) {
  const std::string word = lower(text);
  // Scripts written for Horovod say "gloo" and mean: without MPI.
  if (word == "gloo") return std::string("tcp");
  if (word == "auto" || word == "tcp" || word == "mpi") return word;
  return refuse(text, "allowed: auto, tcp, mpi");
}

Result<CodecId> parse_codec(const std::string& text) {
  for (const CodecId codec : {CodecId::kNone, CodecId::kFp16, CodecId::kBf16}) {
    if (lower(text) == name_of(codec)) return codec;
  }
  return refuse(text, "allowed: none, fp16, bf16");
}
std::string print_codec(CodecId value) { return name_of(value); }

Result<Stores> parse_stores(const std::string& text) {
  const std::string word = lower(text);
  if (word == "auto") return Stores::kByDistance;
  if (word == "plain") return Stores::kPlain;
  if (word == "non-temporal") return Stores::kNonTemporal;
  return refuse(text, "allowed: auto, plain, non-temporal");
}
std::string print_stores(Stores value) {
  return value == Stores::kByDistance ? "auto" : value == Stores::kPlain ? "plain" : "non-temporal";
}

Result<Waits> parse_waits(const std::string& text) {
  const std::string word = lower(text);
  if (word == "auto") return Waits::kChosen;
  if (word == "spin") return Waits::kSpin;
  if (word == "sleep") return Waits::kSleep;
  return refuse(text, "allowed: auto, spin, sleep");
}
std::string print_waits(Waits value) {
  return value == Waits::kChosen ? "auto" : value == Waits::kSpin ? "spin" : "sleep";
}

Result<int> parse_lane_slots(const std::string& text) {
  if (lower(text) == "auto") return 0;
  for (int slots = 2; slots <= 4; ++slots) {
    if (text == std::to_string(slots)) return slots;
  }
  return refuse(text, "allowed: auto, 2, 3, 4");
}
std::string print_lane_slots(int value) { return value == 0 ? "auto" : std::to_string(value); }

Result<uint64_t> parse_chunk(const std::string& text) {
  constexpr uint64_t kShortest = 64 << 10;
  constexpr uint64_t kLongest = uint64_t{1} << 30;
  const auto bytes = parse_bytes(text);
  const bool allowed = bytes.ok() && (bytes.value() == 0 || (bytes.value() >= kShortest && bytes.value() <= kLongest));
  return allowed ? bytes : refuse(text, "allowed: 0, or bytes from 64KiB to 1GiB, as in 128KiB");
}

Result<bool> parse_tls(const std::string& text) {
  if (lower(text) == "control") return false;
  if (lower(text) == "all") return true;
  return refuse(text, "allowed: control, all");
}
std::string print_tls(bool value) { return value ? "all" : "control"; }

Result<std::string> parse_interfaces(const std::string& text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (text.empty() || text.size() > 1024 || !printable) {
    return refuse(text, "allowed: auto, or names, globs or CIDR separated by commas, as in eth0,10.1.0.0/16");
  }
  return text;
}

Result<std::string> parse_paths(const std::string& text) {
  if (text.size() > 4096)
    return refuse(text.substr(0, 64) + "...", "allowed: paths separated by colons, 4096 bytes at most");
  return text;
}

Result<std::string> parse_file(const std::string& text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c < 0 || (c >= ' ' && c != 127); });
  if (text.size() > 4096 || !printable)
    return refuse(text.substr(0, 64), "allowed: a path of printable characters, 4096 bytes at most");
  return text;
}

Result<uint16_t> parse_port(const std::string& text) {
  uint16_t value = 0;
  if (!whole_number(text, value)) return refuse(text, "allowed: 0 to 65535");
  return value;
}
std::string print_port(uint16_t value) { return std::to_string(value); }

namespace {

constexpr std::pair<const char*, int> kSignals[] = {
    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGHUP", SIGHUP}, {"SIGQUIT", SIGQUIT}};

}  // namespace

Result<int> parse_signal(const std::string& text) {
  if (text.empty()) return 0;
  for (const auto& [name, number] : kSignals) {
    if (text == name || text == std::string_view(name).substr(3)) return number;
  }
  return refuse(text, "allowed: SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT");
}
std::string print_signal(int value) {
  for (const auto& [name, number] : kSignals) {
    if (number == value) return name;
  }
  return "";
}

Result<int> parse_log_level(const std::string& text) {
  const auto* found = std::find(std::begin(kLogLevels), std::end(kLogLevels), lower(text));
  if (found == std::end(kLogLevels)) return refuse(text, "allowed: trace, debug, info, warning, error, fatal, off");
  return static_cast<int>(found - std::begin(kLogLevels));
}
std::string print_log_level(int value) { return kLogLevels[std::clamp(value, 0, 6)]; }
std::string print_text(const std::string& value) { return value; }

}  // namespace rueda::core
