// Counts the ranks of each limited group, because every rank takes a segment at the same time. Looking at each
// neighbour's group costs a file each, so it is done only if the segments of all neighbours would not fit.
#include "runtime/rendezvous/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/control_groups.h"

namespace rueda::core {
namespace {

double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// This rank and the neighbours in its group. One that this process cannot see is in another container.
size_t ranks_in(const MemoryLimit& limit, const std::vector<int64_t>& neighbours, const std::string& root) {
  return 1 + static_cast<size_t>(std::count_if(neighbours.begin(), neighbours.end(), [&](int64_t pid) {
           const auto group = memory_group(pid, root);
           return group && lies_in(*group, limit.group);
         }));
}

}  // namespace

Status check_budget(std::span<const MemoryLimit> limits, size_t bytes, const std::vector<int64_t>& neighbours,
                    const std::string& root) {
  for (const MemoryLimit& limit : limits) {
    if (limit.left_bytes >= bytes * (neighbours.size() + 1)) continue;
    const size_t ranks = ranks_in(limit, neighbours, root);
    if (limit.left_bytes >= bytes * ranks) continue;
    return {Code::kSystem,
            fmt::format(
                "the memory limit of control group {} is {:.1f} MiB, {:.1f} MiB are left, and {} in it {} {:.1f} MiB{}",
                limit.group.empty() ? "/" : limit.group, mib(limit.limit_bytes), mib(limit.left_bytes),
                ranks == 1 ? "1 rank" : std::to_string(ranks) + " ranks", ranks == 1 ? "needs" : "need", mib(bytes),
                ranks == 1 ? "" : " each")};
  }
  return {};
}

}  // namespace rueda::core
