#include <utility>

#include "runtime/agreement/participant_state.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

Participant::State::Set& Participant::State::add_set(SetId number, const std::vector<int>& ranks) {
  return sets.try_emplace(number, number, ranks, config).first->second;
}

void Participant::add_set(SetId number, const std::vector<int>& ranks, const std::string& name) {
  if (!state_->over.ok()) return;
  if (number >= kFirstPairSet && state_->sets.count(number) != 0) return;  // the other one has asked for it
  State::Set& set = state_->add_set(number, ranks);
  set.name = name;
  for (const int rank : ranks) {
    if (state_->left[static_cast<size_t>(rank)] == 0) continue;
    set.over = Status(Code::kShutDown, state_->rank_name(rank) + " has shut down", rank);
    return;
  }
  // A list without a name says nothing to those who are not in it.
  if (!set.member && name.empty()) return;
  set.asking = state_->asked[{name, ranks}]++;
  WireWriter record;
  record.text(name);
  put_ranks(record, ranks);
  state_->proposals.record(kGlobalSet, ProposalKind::kMakeSet, record.size() + kMaxRecordBytes).raw(record.view());
}

void Participant::remove_set(SetId number) {
  State::Set* set = state_->find_number(number);
  if (set == nullptr) return;
  set->gone = true;
  if (set->id != kNoSetId) {
    state_->proposals.record(set->id, ProposalKind::kRemoveSet);
  } else if (!set->member || !set->over.ok()) {
    state_->erase(*set);
  } else {
    const int self = state_->config.rank;
    state_->give_up(*set, {Code::kMismatch, state_->rank_name(self) + " has removed the process set", self});
  }
}

/// Rank 0 is asked to refuse what it has not made yet.
void Participant::State::give_up(const Set& set, const Status& why) {
  WireWriter record;
  record.text(set.name);
  put_ranks(record, set.ranks);
  record.varint(set.asking);
  put_failure(record, why);
  proposals.record(kGlobalSet, ProposalKind::kGiveUpSet, record.size() + kMaxRecordBytes).raw(record.view());
}

Participant::State::Asking Participant::State::get_asking(WireReader& reader) const {
  Asking asking;
  asking.name = reader.text(kMaxNameBytes);
  asking.ranks = get_ranks(reader, config.size);
  asking.number = reader.varint();
  return asking;
}

/// The set that an answer is about; null if there is none that waits for one.
Participant::State::Set* Participant::State::asked_for(const Asking& asking) {
  for (auto& [number, set] : sets) {
    const bool waits = set.id == kNoSetId && set.over.ok() && set.member;
    if (waits && set.name == asking.name && set.ranks == asking.ranks && set.asking == asking.number) return &set;
  }
  return nullptr;
}

/// That of two ranks is there for both when one has asked for it.
Participant::State::Set* Participant::State::add_pair(const Asking& asking) {
  const auto pair = pair_of(asking.name);
  if (!pair || (pair->first != config.rank && pair->second != config.rank)) return nullptr;
  const SetId number = pair_number(config.rank, pair->first, pair->second);
  if (sets.count(number) != 0) return nullptr;
  Set& set = add_set(number, asking.ranks);
  set.name = asking.name;
  return &set;
}

bool Participant::State::take_set(WireReader& reader) {
  const auto id = static_cast<SetId>(reader.varint(kNoSetId - 1));
  const Asking asking = get_asking(reader);
  if (!reader.ok() || made.count(id) != 0) return false;
  Set* set = asked_for(asking);
  if (set == nullptr) set = add_pair(asking);
  if (set == nullptr) return false;
  set->id = id;
  made.emplace(id, set);
  if (set->gone) {
    proposals.record(id, ProposalKind::kRemoveSet);
    freed = true;
    return true;
  }
  events.emplace_back(SetEvent{set->number, arrange_set(id, set->ranks, config.host_of)});
  start(*set);
  advance_all();
  return true;
}

/// What waited is proposed, and what of it was abandoned meanwhile is asked for its verdict.
void Participant::State::start(Set& set) {
  for (const Waiting& waiting : std::exchange(set.waiting, {})) {
    freed = true;
    propose_all(set, waiting.requests);
    if (waiting.abandoned.empty() || waiting.requests.back().metadata.kind == OpKind::kJoin) continue;
    const Request& last = waiting.requests.back();
    const Key& key = find_or_add(set, last.name, last.metadata.kind);
    ask_abandon(key, {last.ticket, key.count - 1, last.metadata.kind, last.group != 0}, waiting.abandoned);
  }
}

bool Participant::State::abandon_waiting(uint64_t ticket, const std::string& sentence) {
  for (auto& [number, set] : sets) {
    for (Waiting& waiting : set.waiting) {
      const bool holds = std::any_of(waiting.requests.begin(), waiting.requests.end(),
                                     [ticket](const Request& request) { return request.ticket == ticket; });
      if (!holds) continue;
      if (waiting.abandoned.empty()) give_up(set, {Code::kTimeout, sentence, config.rank});
      waiting.abandoned = sentence;
      return true;
    }
  }
  return false;
}

bool Participant::State::take_no_set(WireReader& reader) {
  const Asking asking = get_asking(reader);
  const Status why = get_failure(reader, config.size);
  Set* set = reader.ok() ? asked_for(asking) : nullptr;
  if (!reader.ok() || set == nullptr) return false;
  end_set(*set, why);
  if (set->gone) erase(*set);
  return true;
}

bool Participant::State::take_end_set(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  const Status why = get_failure(reader, config.size);
  if (!reader.ok() || set == nullptr) return false;
  end_set(*set, why);
  return true;
}

bool Participant::State::take_forget_set(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  if (!reader.ok() || set == nullptr || !set->gone) return false;
  erase(*set);
  return true;
}

void Participant::State::end_set(Set& set, const Status& why) {
  if (!set.over.ok()) return;
  set.over = why;
  std::vector<std::pair<uint64_t, Status>> failed;
  for_each_key(set, [&](Key& key) {
    for (const Operation& operation : key.pending) {
      failed.emplace_back(operation.ticket, needs(set, key.name, operation.kind));
    }
    key.pending.clear();
    key.owed.clear();
  });
  set.failures.clear();
  set.joined = false;
  if (set.join_ticket != kNoTicket) {
    const uint64_t ticket = std::exchange(set.join_ticket, kNoTicket);
    failed.emplace_back(ticket, needs(set, {}, OpKind::kJoin));
  }
  for (const Waiting& waiting : std::exchange(set.waiting, {})) {
    for (const Request& request : waiting.requests) {
      failed.emplace_back(request.ticket, needs(set, request.name, request.metadata.kind));
    }
  }
  std::sort(failed.begin(), failed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [ticket, status] : failed) events.emplace_back(ErrorEvent{{ticket}, std::move(status)});
}

void Participant::State::erase(Set& set) {
  for_each_key(set, [this](const Key& key) {
    if (key.id != 0) by_id.erase(key.id);
  });
  made.erase(set.id);
  sets.erase(set.number);
}

}  // namespace rueda::core
