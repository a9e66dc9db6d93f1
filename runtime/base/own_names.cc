// Names of the process sets that messages run in: "rueda.send.SENDER.RECEIVER". Programs cannot give such names, so a
// pair never meets a set of the program.
#include "runtime/base/own_names.h"

#include <charconv>

namespace rueda::core {
namespace {

constexpr std::string_view kPairNames = "rueda.send.";

}  // namespace

std::string pair_name(int sender, int receiver) {
  return std::string(kPairNames) + std::to_string(sender) + "." + std::to_string(receiver);
}

std::optional<std::pair<int, int>> pair_of(std::string_view name) {
  if (!name.starts_with(kPairNames)) return std::nullopt;
  const char* const end = name.data() + name.size();
  int sender = -1, receiver = -1;
  const char* const dot = std::from_chars(name.data() + kPairNames.size(), end, sender).ptr;
  if (dot == end) return std::nullopt;
  std::from_chars(dot + 1, end, receiver);
  // Compared with the name made anew: leading zeros, signs and trailing letters would be a second name for one pair.
  if (sender < 0 || receiver < 0 || sender == receiver || name != pair_name(sender, receiver)) return std::nullopt;
  return std::pair(sender, receiver);
}

}  // namespace rueda::core
