#include "runtime/base/rank_ranges.h"

namespace rueda::core {

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

}  // namespace rueda::core
