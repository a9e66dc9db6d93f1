// How sentences name ranks. Ranges make a list of thousands readable: "ranks 0-4095" instead of 4,096 numbers. A range
// ends where the numbers or the host change.
#include "runtime/base/rank_ranges.h"

#include <algorithm>

namespace rueda::core {

std::string rank_name(int rank, std::string_view host, int64_t pid) {
  std::string text = "rank " + std::to_string(rank) + " (host ";
  text += host;
  if (pid != 0) text += ", pid " + std::to_string(pid);
  return text + ")";
}

std::string rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts) {
  const auto host_of = [hosts](int rank) {
    return static_cast<size_t>(rank) < hosts.size() ? hosts[static_cast<size_t>(rank)] : std::string();
  };
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    const std::string host = host_of(ranks[i]);
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1 && host_of(ranks[last + 1]) == host) ++last;
    text += text.empty() ? "" : ", ";
    text += (last == i ? "rank " : "ranks ") + std::to_string(ranks[i]);
    if (last != i) text += "-" + std::to_string(ranks[last]);
    if (!host.empty()) text += " (host " + host + ")";
    i = last + 1;
  }
  return text;
}

std::string bounded_rank_ranges(std::span<const int> ranks, std::span<const std::string> hosts, size_t most_bytes) {
  std::string text = rank_ranges(ranks, hosts);
  if (text.size() <= most_bytes) return text;
  // Cut before a whole range; a first range that is too long is cut anywhere.
  text.resize(std::min(text.rfind(", ", most_bytes), most_bytes));
  return text + ", ... (" + std::to_string(ranks.size()) + " ranks in all)";
}

}  // namespace rueda::core
