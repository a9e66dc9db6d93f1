// Expands the compressed lists in Slurm's variables (the grammar is in scontrol(1) under "show hostnames"):
//
//   list   = part {"," part}                    commas inside brackets separate ranges
//   part   = text ["[" range {"," range} "]"] ...
//   range  = number ["-" number]                the first number's width pads all of them
//
// Every loop is bounded, because a list of few bytes may name very many nodes.
#include "runtime/rendezvous/node_list.h"

#include <charconv>
#include <optional>

namespace rueda::core {
namespace {

constexpr size_t kMost = 65536;

Status refuse(std::string_view list, const char* what) {
  return {Code::kInvalidArgument, "\"" + std::string(list) + "\" is not a list of " + what + " in Slurm's notation"};
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// "07" for 7 if the range's first number has two digits.
std::string padded(int value, size_t width) {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

/// Cuts `text` at commas outside brackets.
std::vector<std::string_view> cut(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size()) depth += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
    if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  return parts;
}

using Names = std::vector<std::string>;

/// Appends `name` with each number of "07-09" or "12". Returns false if `range` is malformed.
bool append_range(const std::string& name, std::string_view range, Names& names) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const auto first = number(low), last = number(dash == std::string_view::npos ? low : range.substr(dash + 1));
  if (!first || !last || *last < *first || static_cast<size_t>(*last - *first) >= kMost) return false;
  for (int value = *first; value <= *last && names.size() <= kMost; ++value)
    names.push_back(name + padded(value, low.size()));
  return true;
}

/// Expands "rack[1-2]n[07,9]": brackets multiply, and the last one varies fastest. Returns false if it is malformed.
bool expand_one(std::string_view text, Names& nodes) {
  Names names{""};
  while (!text.empty()) {
    const size_t open = text.find('[');
    for (std::string& name : names) name += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    Names next;
    for (const std::string& name : names) {
      for (const std::string_view range : cut(text.substr(open + 1, close - open - 1))) {
        if (!append_range(name, range, next)) return false;
      }
    }
    names = std::move(next);
    text.remove_prefix(close + 1);
  }
  for (const std::string& name : names) {
    if (name.empty() || name.find_first_of("[] \t\n") != std::string::npos) return false;
  }
  nodes.insert(nodes.end(), names.begin(), names.end());
  return nodes.size() <= kMost;
}

}  // namespace

Result<std::vector<std::string>> expand_nodes(std::string_view list) {
  Names nodes;
  for (const std::string_view part : cut(list)) {
    if (part.empty() || !expand_one(part, nodes)) return refuse(list, "nodes");
  }
  return nodes;
}

Result<std::vector<int>> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (const std::string_view part : cut(list)) {
    const size_t open = part.find("(x");
    const bool repeated = open != std::string_view::npos && part.back() == ')';
    const auto count = number(part.substr(0, open));
    const auto times = repeated ? number(part.substr(open + 2, part.size() - open - 3)) : std::optional<int>(1);
    if (!count || !times || (open != std::string_view::npos && !repeated)) return refuse(list, "counts");
    if (counts.size() + static_cast<size_t>(*times) > kMost) return refuse(list, "counts");
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
  }
  return counts;
}

}  // namespace rueda::core
