// Finds the team of a process set.
//
// A set has two names: the id that rank 0 gave it, under which batches come, and this rank's own number, which callers
// use. Both maps lead to one state, which batches share.
#include "runtime/engine/teams.h"

#include <algorithm>
#include <numeric>

namespace rueda::core {

Teams::Teams(int rank, int upstream, const SetMembers& global) : rank_(rank), upstream_(upstream) {
  add(kGlobalSet, global, "");
}

/// All is known here that batches of the set need: no batch asks agreement about its team.
void Teams::add(SetId number, const SetMembers& set, std::string of) {
  const auto own = std::find(set.ranks.begin(), set.ranks.end(), rank_);
  if (own == set.ranks.end()) return;
  auto state = std::make_shared<TeamState>();
  state->team = Team{set.ranks, static_cast<int>(own - set.ranks.begin()), set.groups, set.one_host, set.hosts};
  state->id = set.id;
  state->number = number;
  state->of = std::move(of);
  // One member returns the set's credits to rank 0, and all can tell which one.
  const bool lowest = *std::min_element(set.ranks.begin(), set.ranks.end()) == rank_;
  state->lowest = lowest;
  state->with_upstream = std::find(set.ranks.begin(), set.ranks.end(), upstream_) != set.ranks.end();
  if (lowest) led_.emplace_back(set.id, state.get());
  by_number_.emplace(number, state.get());
  teams_.emplace(set.id, std::move(state));
}

/// Into `removed_` first: without memory for it nothing has changed.
void Teams::remove(SetId number) {
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return;
  const TeamState* const gone = found->second;
  removed_.push_back(teams_.at(gone->id));
  by_number_.erase(found);
  std::erase_if(led_, [gone](const auto& led) { return led.second == gone; });
  std::erase_if(teams_, [gone](const auto& team) { return team.second.get() == gone; });
}

/// Nothing shares a removed state anew, so a state that only this list holds stays so.
std::optional<SetId> Teams::take_unused() {
  const auto unused =
      std::find_if(removed_.begin(), removed_.end(), [](const auto& team) { return team.use_count() == 1; });
  if (unused == removed_.end()) return std::nullopt;
  const SetId id = (*unused)->id;
  removed_.erase(unused);
  return id;
}

/// Null for a set that other ranks still use but this one has removed.
std::shared_ptr<TeamState> Teams::find(SetId id) {
  const auto found = teams_.find(id);
  return found == teams_.end() ? nullptr : found->second;
}

TeamState* Teams::find_number(SetId number) {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

/// In the canonical order, by host and then by rank: `arrange_set` puts it so.
SetMembers global_set(const EpochPlan& plan) {
  std::vector<int> all(static_cast<size_t>(plan.size));
  std::iota(all.begin(), all.end(), 0);
  return arrange_set(kGlobalSet, all, plan.host_of);
}

}  // namespace rueda::core
