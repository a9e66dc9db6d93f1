// How sentences name a process set: by its name and members, since ranks number their sets as they like. Long lists of
// members are cut, so that the rest of the sentence stays readable.
#include "runtime/diagnosis/set_words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "runtime/base/own_names.h"
#include "runtime/base/printable.h"

namespace rueda::core {
namespace {

/// About a line of a terminal.
constexpr size_t kMostMemberBytes = 120;

}  // namespace

std::string set_words(std::string_view name, std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  const std::string members = bounded_rank_ranges(ranks, {}, kMostMemberBytes);
  return name.empty() ? "the process set of " + members
                      : fmt::format("process set \"{}\" ({})", printable(name), members);
}

std::string of_set(std::string_view name, const std::vector<int>& ranks) {
  if (const auto pair = pair_of(name)) return fmt::format(" from rank {} to rank {}", pair->first, pair->second);
  return " of " + set_words(name, ranks);
}

std::string who_joined(const std::vector<int>& joined, const std::vector<int>& missing, const RankNames& names) {
  return fmt::format("{} {} for {}", rank_ranges(joined, names),
                     joined.size() == 1 ? "has joined and waits" : "have joined and wait", rank_ranges(missing, names));
}

}  // namespace rueda::core
