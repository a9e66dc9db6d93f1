#include <algorithm>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

Arbiter::State::State(const AgreementConfig& given) : config(given), addressed(given.epoch) {
  for (int rank = 0; rank < config.size; ++rank) ranks.emplace_back(config.epoch);
  for (const SetMembers& members : config.sets) add_set(members);
}

Arbiter::State::Set& Arbiter::State::add_set(const SetMembers& members) {
  const auto capacity = static_cast<size_t>(std::min<uint64_t>(config.cache_capacity, kMaxMetadata));
  Set& set = sets.try_emplace(members.id, members, capacity, config.fusion_threshold_bytes).first->second;
  set.index.assign(static_cast<size_t>(config.size), -1);
  for (size_t i = 0; i < members.ranks.size(); ++i) {
    set.index[static_cast<size_t>(members.ranks[i])] = static_cast<int>(i);
  }
  set.lowest = *std::min_element(members.ranks.begin(), members.ranks.end());
  set.seen.assign(members.ranks.size(), 0);
  set.removed.assign(members.ranks.size(), 0);
  set.joined.assign(members.ranks.size(), 0);
  next_set = std::max(next_set, members.id + 1);
  return set;
}

std::string Arbiter::State::rank_name(int rank) const { return rank_ranges({&rank, 1}, config.hosts); }

Arbiter::Arbiter(const AgreementConfig& config) : state_(std::make_unique<State>(config)) {}
Arbiter::~Arbiter() = default;

void Arbiter::plan() {
  for (auto& [id, set] : state_->sets) {
    while (set.waiting() && set.has_credit()) state_->issue_next(set);
    state_->end_join_if_all(set);
  }
  state_->evict_down_to_capacity();
}

std::vector<std::byte> Arbiter::take_frame(int rank) { return state_->ranks[static_cast<size_t>(rank)].frames.take(); }

bool Arbiter::out_of_credit() const {
  return std::any_of(state_->sets.begin(), state_->sets.end(),
                     [](const auto& each) { return each.second.waiting() && !each.second.has_credit(); });
}

}  // namespace rueda::core
