#include "runtime/agreement/set_members.h"

#include <algorithm>

namespace rueda::core {
namespace {

constexpr int kLargestGroup = 16;

void append_groups(int members, std::vector<int>& groups) {
  for (int left = members; left > 0; left -= kLargestGroup) groups.push_back(std::min(left, kLargestGroup));
}

}  // namespace

SetMembers arrange_set(SetId id, std::span<const int> ranks, std::span<const int> host_of) {
  const auto host = [host_of](int rank) { return host_of.empty() ? 0 : host_of[static_cast<size_t>(rank)]; };
  SetMembers set{id, {ranks.begin(), ranks.end()}, {}, true, {}};
  std::stable_sort(set.ranks.begin(), set.ranks.end(), [&](int a, int b) { return host(a) < host(b); });
  for (auto first = set.ranks.begin(); first != set.ranks.end();) {
    const auto last = std::find_if(first, set.ranks.end(), [&](int rank) { return host(rank) != host(*first); });
    append_groups(static_cast<int>(last - first), set.groups);
    set.hosts.push_back(static_cast<int>(last - first));
    set.one_host = set.one_host && first == set.ranks.begin();
    first = last;
  }
  return set;
}

SetId pair_number(int rank, int sender, int receiver) {
  const bool sends = rank == sender;
  return kFirstPairSet + 2 * static_cast<SetId>(sends ? receiver : sender) + (sends ? 0 : 1);
}

std::string print_place(SetId number) {
  if (number < kFirstPairSet) return "in process set " + std::to_string(number);
  const SetId pair = number - kFirstPairSet;
  return (pair % 2 == 0 ? "to rank " : "from rank ") + std::to_string(pair / 2);
}

}  // namespace rueda::core
