// Process sets as a rank sees them. The rank numbers its sets itself, so requests may follow `add_set` at once; rank
// 0's id comes with the kSet verdict, and what waited is proposed then.
//
//   add_set ─▶ asked ─kSet─▶ made ─▶ start: what waited ─▶ in use ─kEndSet, goodbye─▶ over ─kForgetSet─▶ erased
//                └─ kNoSet, give_up ─▶ over
//
// A set that is over fails everything with one sentence (`needs`), now and later. `remove_set` marks it as gone, and it
// is kept until rank 0 says that all members have removed it, because verdicts that name its id may still be on their
// way.
#include <utility>

#include "runtime/agreement/participant_state.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

Participant::State::Set& Participant::State::add_set(SetId number, const std::vector<int>& ranks) {
  return sets.try_emplace(number, number, ranks, config).first->second;
}

void Participant::add_set(SetId number, const std::vector<int>& ranks, const std::string& name) {
  if (!state_->over.ok()) return;
  if (number >= kFirstPairSet && state_->sets.count(number) != 0) return;  // the other rank of the pair has asked first
  State::Set& set = state_->add_set(number, ranks);
  set.name = name;
  // A set with a rank that has left is over before it is asked for: rank 0 would never make it.
  for (const int rank : ranks) {
    if (state_->left[static_cast<size_t>(rank)] == 0) continue;
    set.over = Status(Code::kShutDown, state_->rank_name(rank) + " has shut down", rank);
    return;
  }
  // A list without a name concerns its members only: there is no name that two lists could share.
  if (!set.member && name.empty()) return;
  set.asking = state_->asked[{name, ranks}]++;
  WireWriter record;
  record.text(name);
  put_ranks(record, ranks);
  state_->proposals.record(kGlobalSet, ProposalKind::kMakeSet, record.size() + kMaxRecordBytes).raw(record.view());
}

/// Three cases: a set that is made is removed at rank 0; one that will never be made here is erased; one that is still
/// in the making is given up, and erased with rank 0's refusal.
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

/// Asks rank 0 to refuse the set if it has not made it yet. The members that wait for this rank then hear why.
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

/// Returns the set that an answer is about, or null if none waits for it.
Participant::State::Set* Participant::State::asked_for(const Asking& asking) {
  for (auto& [number, set] : sets) {
    const bool waits = set.id == kNoSetId && set.over.ok() && set.member;
    if (waits && set.name == asking.name && set.ranks == asking.ranks && set.asking == asking.number) return &set;
  }
  return nullptr;
}

/// Adds the set of a pair that the other rank has asked for. Returns null if the verdict is about no pair of this rank,
/// or one that it has already.
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
  // Removed before it was made. The other members have it now, and must hear of the removal.
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

/// Proposes what has waited. What was abandoned meanwhile is proposed too, since other members may wait for it, and
/// then abandoned at rank 0.
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

/// The set as a whole is given up: its operations wait for the set, and the set for a member that did not ask.
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

/// The set will never be made. What waited for it fails with rank 0's sentence.
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

/// All members have removed the set, so rank 0 names its id no more.
bool Participant::State::take_forget_set(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  if (!reader.ok() || set == nullptr || !set->gone) return false;
  erase(*set);
  return true;
}

/// Fails everything that the set has in agreement on this rank; each member does so when it reads the verdict. Batches
/// that came before it are on their way to the lanes and run.
void Participant::State::end_set(Set& set, const Status& why) {
  if (!set.over.ok()) return;
  set.over = why;
  // Collected and sorted by ticket, so that the order of failures does not depend on the order of a hash table.
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
