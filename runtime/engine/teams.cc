#include "runtime/engine/teams.h"

#include <algorithm>

namespace rueda::core {
namespace {

constexpr int kLargestGroup = 16;

void append_groups(int members, std::vector<int>& groups) {
  for (int left = members; left > 0; left -= kLargestGroup) groups.push_back(std::min(left, kLargestGroup));
}

}  // namespace

Teams::Teams(int rank, const std::vector<SetMembers>& sets) {
  for (const SetMembers& set : sets) {
    const auto place = std::find(set.ranks.begin(), set.ranks.end(), rank);
    if (place == set.ranks.end()) continue;
    auto state = std::make_unique<TeamState>();
    state->team = Team{set.ranks, static_cast<int>(place - set.ranks.begin()), set.groups, set.one_host, set.hosts};
    state->lowest = *std::min_element(set.ranks.begin(), set.ranks.end()) == rank;
    state->with_rank_zero = std::find(set.ranks.begin(), set.ranks.end(), 0) != set.ranks.end();
    if (state->lowest) led_.emplace_back(set.id, state.get());
    teams_.emplace(set.id, std::move(state));
  }
}

TeamState* Teams::find(SetId set) {
  const auto found = teams_.find(set);
  return found == teams_.end() ? nullptr : found->second.get();
}

SetMembers global_set(const EpochPlan& plan) {
  SetMembers set;
  const int hosts = plan.host_of.empty() ? 0 : 1 + *std::max_element(plan.host_of.begin(), plan.host_of.end());
  for (int host = 0; host < hosts; ++host) {
    int members = 0;
    for (int rank = 0; rank < plan.size; ++rank) {
      if (plan.host_of[static_cast<size_t>(rank)] != host) continue;
      set.ranks.push_back(rank);
      ++members;
    }
    append_groups(members, set.groups);
    set.hosts.push_back(members);
  }
  set.one_host = hosts <= 1;
  return set;
}

}  // namespace rueda::core
