// How the ranks of a process set are arranged: by host, then by rank, with the bracket of its sums, one group for each
// host. Rank 0 and every member compute it from the same list and the same hosts, so it needs no message of its own. A
// host with more than 16 ranks gets several groups.
//
//   ranks 0 1 2 3 4 on hosts a b a b a     order 0 2 4 1 3     groups {3, 2}: (0 + 2 + 4) + (1 + 3)
//
// Numbers of pairs are arithmetic, for the same reason: kFirstPairSet + 2 * peer, plus 1 on the receiver.
#include "runtime/agreement/set_members.h"

#include <algorithm>

namespace rueda::core {
namespace {

/// The most ranks of one group of the bracket.
constexpr int kLargestGroup = 16;

void append_groups(int members, std::vector<int>& groups) {
  for (int left = members; left > 0; left -= kLargestGroup) groups.push_back(std::min(left, kLargestGroup));
}

}  // namespace

SetMembers arrange_set(SetId id, std::span<const int> ranks, std::span<const int> host_of) {
  const auto host = [host_of](int rank) { return host_of.empty() ? 0 : host_of[static_cast<size_t>(rank)]; };
  SetMembers set{id, {ranks.begin(), ranks.end()}, {}, true, {}};
  // Stable, so that ranks of one host stay ascending.
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

/// Both ranks find the number from the other's rank alone, so neither has to tell it.
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
