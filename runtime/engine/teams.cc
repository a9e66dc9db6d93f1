#include "runtime/engine/teams.h"

#include <algorithm>
#include <numeric>

namespace rueda::core {

Teams::Teams(int rank, int upstream, const SetMembers& global) : rank_(rank), upstream_(upstream) {
  add(kGlobalSet, global, "");
}

void Teams::add(SetId number, const SetMembers& set, std::string of) {
  const auto place = std::find(set.ranks.begin(), set.ranks.end(), rank_);
  if (place == set.ranks.end()) return;
  auto state = std::make_unique<TeamState>();
  state->team = Team{set.ranks, static_cast<int>(place - set.ranks.begin()), set.groups, set.one_host, set.hosts};
  state->id = set.id;
  state->number = number;
  state->of = std::move(of);
  const bool lowest = *std::min_element(set.ranks.begin(), set.ranks.end()) == rank_;
  state->lowest = lowest;
  state->with_upstream = std::find(set.ranks.begin(), set.ranks.end(), upstream_) != set.ranks.end();
  if (lowest) led_.emplace_back(set.id, state.get());
  by_number_.emplace(number, state.get());
  teams_.emplace(set.id, std::move(state));
}

void Teams::remove(SetId number) {
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return;
  const TeamState* const gone = found->second;
  by_number_.erase(found);
  std::erase_if(led_, [gone](const auto& led) { return led.second == gone; });
  std::erase_if(teams_, [gone](const auto& team) { return team.second.get() == gone; });
}

TeamState* Teams::find(SetId id) {
  const auto found = teams_.find(id);
  return found == teams_.end() ? nullptr : found->second.get();
}

TeamState* Teams::find_number(SetId number) {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

SetMembers global_set(const EpochPlan& plan) {
  std::vector<int> all(static_cast<size_t>(plan.size));
  std::iota(all.begin(), all.end(), 0);
  return arrange_set(kGlobalSet, all, plan.host_of);
}

}  // namespace rueda::core
