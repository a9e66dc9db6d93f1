// The arbiter's frame: it is built with the sets of the start, and `plan` turns what all ranks agreed on into batches.
// The steps lie in files of their own:
//
//   frame ─▶ arbiter_receive, arbiter_relay ─▶ arbiter_match ─▶ plan (here) ─▶ arbiter_verdicts ─▶ frame
//
// Receiving and planning are two calls because the more proposals are in when a batch is cut, the fuller it is: the
// engine takes every frame that has arrived before it plans once.
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

Arbiter::State::State(const AgreementConfig& given) : config(given), addressed(given.epoch) {
  for (int rank = 0; rank < config.size; ++rank) ranks.emplace_back(config.epoch);
  for (const SetMembers& members : config.sets) add_set(members);
}

/// Rank 0 numbers sets from 1 on; those of the start bring their ids, and later ones follow behind them.
Arbiter::State::Set& Arbiter::State::add_set(const SetMembers& members) {
  const auto capacity = static_cast<size_t>(std::min<uint64_t>(config.cache_capacity, kMaxMetadata));
  Set& set = sets.try_emplace(members.id, members, capacity, config.fusion_threshold_bytes).first->second;
  set.index.assign(static_cast<size_t>(config.size), -1);
  for (size_t i = 0; i < members.ranks.size(); ++i) {
    set.index[static_cast<size_t>(members.ranks[i])] = static_cast<int>(i);
  }
  // The lowest member returns the credits of the set: all ranks can name it without being told.
  set.lowest = *std::min_element(members.ranks.begin(), members.ranks.end());
  set.seen.assign(members.ranks.size(), 0);
  set.removed.assign(members.ranks.size(), 0);
  set.joined.assign(members.ranks.size(), 0);
  next_set = std::max(next_set, members.id + 1);
  return set;
}

std::string Arbiter::State::rank_name(int rank) const { return rank_ranges({&rank, 1}, config.names); }

Arbiter::Arbiter(const AgreementConfig& config) : state_(std::make_unique<State>(config)) {}
Arbiter::~Arbiter() = default;

/// A batch leaves while its set has credit; what stays waits for more to share a batch with. A join ends
/// after the batches of its set: its members take part in those. Evictions come last, when every id that this round
/// settled is at rest.
void Arbiter::plan() {
  for (auto& [id, set] : state_->sets) {
    while (set.waiting() && set.has_credit()) state_->issue_next(set);
    state_->end_join_if_all(set);
  }
  state_->evict_down_to_capacity();
}

bool Arbiter::must_ring(int rank) { return std::exchange(state_->ranks[static_cast<size_t>(rank)].rings, false); }

std::vector<std::byte> Arbiter::take_frame(int rank) { return state_->ranks[static_cast<size_t>(rank)].frames.take(); }

/// Only a batch that waits for nothing but credit makes a credit urgent. Otherwise it may lie in the ring until the
/// next turn of rank 0.
bool Arbiter::out_of_credit() const {
  return std::any_of(state_->sets.begin(), state_->sets.end(),
                     [](const auto& each) { return each.second.waiting() && !each.second.has_credit(); });
}

}  // namespace rueda::core
