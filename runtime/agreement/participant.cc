#include <utility>

#include "runtime/agreement/participant_state.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {

Participant::State::Set::Set(SetId own_number, std::vector<int> members, const AgreementConfig& config)
    : number(own_number),
      ranks(std::move(members)),
      member(contains(config.rank)),
      lowest(config.rank == *std::min_element(ranks.begin(), ranks.end())),
      metadata(static_cast<size_t>(std::min<uint64_t>(config.cache_capacity, kMaxMetadata))) {
  for (size_t kind = 0; kind < unnamed.size(); ++kind) {
    unnamed[kind].set = this;
    unnamed[kind].kind = static_cast<OpKind>(kind);
  }
}

Participant::State::State(const AgreementConfig& given)
    : config(given), left(static_cast<size_t>(given.size)), proposals(given.epoch) {
  for (const SetMembers& members : config.sets) {
    Set& set = add_set(members.id, members.ranks);
    set.id = members.id;
    made.emplace(set.id, &set);
  }
}

Participant::State::Set* Participant::State::find_set(SetId id) {
  const auto found = made.find(id);
  return found == made.end() ? nullptr : found->second;
}

Participant::State::Set* Participant::State::find_number(SetId number) {
  const auto found = sets.find(number);
  return found == sets.end() || found->second.gone ? nullptr : &found->second;
}

Participant::State::Key& Participant::State::find_or_add(Set& set, std::string_view name, OpKind kind) {
  if (name.empty()) return set.unnamed[static_cast<size_t>(kind)];
  const auto found = set.named.find(name);
  if (found != set.named.end()) return found->second;
  Key& key = set.named[std::string(name)];
  key.set = &set;
  key.name = name;
  return key;
}

Participant::State::Key& Participant::State::key_of(Set& set, const Request& request) {
  if (request.number == 0) return find_or_add(set, request.name, request.metadata.kind);
  if (request.number >= set.numbered.size()) set.numbered.resize(size_t{request.number} + 1);
  Key*& known = set.numbered[request.number];
  if (known == nullptr) {
    known = &find_or_add(set, request.name, request.metadata.kind);
    known->number = request.number;
  }
  return *known;
}

std::string Participant::State::rank_name(int rank) const { return rank_ranges({&rank, 1}, config.hosts); }

Status Participant::State::needs(const Set& set, const std::string& name, OpKind kind) const {
  std::string why = set.over.sentence() + "; " + name_of(kind);
  if (!name.empty()) {
    why += " \"" + name + "\"";
  } else if (kind != OpKind::kJoin) {
    why += " without a name";
  }
  why += " needs it";
  const int who = set.over.rank();
  if (who == 0 && !set.contains(0)) why += ", which decides what every set runs";
  const bool left_us = who >= 0 && who != config.rank && left[static_cast<size_t>(who)] != 0;
  if (left_us && ran_before(set, name, kind)) {
    why += ", and ran before: where ranks have different numbers of steps, those with fewer end with a join";
  }
  return {set.over.code(), why, who};
}

bool Participant::State::ran_before(const Set& set, const std::string& name, OpKind kind) {
  if (kind == OpKind::kJoin) return false;
  if (name.empty()) return set.unnamed[static_cast<size_t>(kind)].floor > 0;
  const auto known = set.named.find(name);
  return known != set.named.end() && known->second.floor > 0;
}

Status Participant::State::refusal(std::span<const Request> requests) {
  if (!over.ok()) return over;
  const Request& first = requests.front();
  const bool grouped = first.group != 0;
  for (const Request& request : requests) {
    if (request.group != first.group || request.set != first.set ||
        request.metadata.group_size != (grouped ? requests.size() : 0) ||
        request.metadata.group_hash != first.metadata.group_hash || requests.size() > kMaxGroupSize) {
      return {Code::kInvalidArgument, "a group of " + std::to_string(requests.size()) +
                                          " tensors is not one group: \"" + request.name +
                                          "\" differs in set, group or size"};
    }
    if (const std::string why = why_not_valid(request); !why.empty()) return {Code::kInvalidArgument, why};
  }
  const Set* set = find_number(first.set);
  if (set == nullptr || !set->member) {
    return {Code::kInvalidArgument,
            rank_name(config.rank) + " is no member of process set " + std::to_string(first.set)};
  }
  if (set->joined && first.metadata.kind != OpKind::kSend) {
    return {Code::kInvalidArgument, rank_name(config.rank) + " has joined process set " + std::to_string(first.set) +
                                        " and takes no other part in it until all members have"};
  }
  return {};
}

void Participant::State::encode(Key& key, const Request& request) {
  ++(key.id == 0 ? counts.in_full : counts.by_id);
  if (key.id == 0) return proposals.full(key.set->id, request.name, request.metadata);
  const MetadataTable& table = key.set->metadata;
  if (key.home != kNoMetadata && table.at(key.home) == request.metadata) return proposals.cached(key.id);
  proposals.cached(key.id, table.find(request.metadata), request.metadata);
}

void Participant::State::propose(Set& set, const Request& request) {
  if (!set.over.ok()) {
    set.joined = false;
    events.push_back(ErrorEvent{{request.ticket}, needs(set, request.name, request.metadata.kind)});
    return;
  }
  if (request.metadata.kind == OpKind::kJoin) return join(set, request.ticket);
  Key& key = key_of(set, request);
  encode(key, request);
  const uint64_t occurrence = key.count++;
  const auto owed = std::find_if(key.owed.begin(), key.owed.end(),
                                 [occurrence](const Owed& error) { return error.occurrence == occurrence; });
  if (owed == key.owed.end()) {
    key.pending.push_back({request.ticket, occurrence, request.metadata.kind, request.group != 0});
    return;
  }
  pay(set, *owed, request.group != 0);
  events.push_back(ErrorEvent{{request.ticket}, std::move(owed->status)});
  key.owed.erase(owed);
}

void Participant::State::pay(Set& set, const Owed& owed, bool grouped) {
  const auto failure = set.failures.find(owed.failure);
  if (failure == set.failures.end()) return;
  if (--failure->second.left == 0) {
    set.failures.erase(failure);
  } else if (grouped) {
    paid.push_back(owed.failure);
  }
}

void Participant::State::propose_all(Set& set, std::span<const Request> requests) {
  paid.clear();
  for (const Request& request : requests) propose(set, request);
  for (const uint64_t failure : paid) {
    const auto rest = set.failures.extract(failure);
    if (!rest.empty()) level(rest.mapped().ids, failure);
  }
}

/// Proposes, for nobody, what of the failure this rank would have to propose next. What it owes more of stays owed.
void Participant::State::level(std::span<const uint64_t> ids, uint64_t failure) {
  for (const uint64_t id : ids) {
    Key* key = by_id.find(id);
    if (key == nullptr) continue;
    const auto owed = std::find_if(key->owed.begin(), key->owed.end(), [&](const Owed& error) {
      return error.failure == failure && error.occurrence == key->count;
    });
    if (owed == key->owed.end()) continue;
    Metadata nothing;
    nothing.kind = key->kind;
    proposals.cached(id, kNoMetadata, nothing);
    ++key->count;
    key->owed.erase(owed);
    freed = true;
    events.emplace_back(LevelEvent{key->set->number, key->name, key->kind});
  }
}

/// Errors that wait for this rank to propose them have nobody to go to: when the join ends, its counters pass them.
void Participant::State::join(Set& set, uint64_t ticket) {
  set.join_ticket = ticket;
  for_each_key(set, [](Key& key) { key.owed.clear(); });
  set.failures.clear();
  proposals.record(set.id, ProposalKind::kJoin);
}

Participant::Participant(const AgreementConfig& config) : state_(std::make_unique<State>(config)) {}
Participant::~Participant() = default;

void Participant::submit(std::span<const Request> requests) {
  if (requests.empty()) return;
  if (Status why = state_->refusal(requests); !why.ok()) {
    ErrorEvent refused{{}, std::move(why)};
    for (const Request& request : requests) refused.tickets.push_back(request.ticket);
    state_->events.push_back(std::move(refused));
    return;
  }
  if (state_->hold_receive(requests.front())) return;
  State::Set& set = *state_->find_number(requests.front().set);
  if (requests.front().metadata.kind == OpKind::kJoin) set.joined = true;
  state_->enter(set, requests);
}

void Participant::State::enter(Set& set, std::span<const Request> requests) {
  if (set.id != kNoSetId || !set.over.ok()) return propose_all(set, requests);
  if (requests.front().group != 0) {
    set.waiting.push_back({{requests.begin(), requests.end()}, {}});
  } else {
    for (const Request& request : requests) set.waiting.push_back({{request}, {}});
  }
}

void Participant::State::ask_abandon(const Key& key, const Operation& operation, const std::string& sentence) {
  WireWriter& writer =
      proposals.record(key.set->id, key.id != 0 ? ProposalKind::kAbandonId : ProposalKind::kAbandonKey);
  if (key.id != 0) {
    writer.varint(key.id);
  } else {
    writer.u8(static_cast<uint8_t>(key.kind));
    writer.text(key.name);
  }
  writer.varint(key.count - 1 - operation.occurrence);
  writer.text(bounded_sentence(sentence));
}

void Participant::abandon(uint64_t ticket, const std::string& sentence) {
  if (state_->abandon_receive(ticket, sentence) || state_->abandon_waiting(ticket, sentence)) return;
  for (auto& [number, set] : state_->sets) {
    state_->for_each_key(set, [&](const State::Key& key) {
      for (const State::Operation& operation : key.pending) {
        if (operation.ticket == ticket) state_->ask_abandon(key, operation, sentence);
      }
    });
  }
}

void Participant::goodbye() {
  if (state_->leaving) return;
  state_->leaving = true;
  state_->proposals.record(kGlobalSet, ProposalKind::kGoodbye);  // also behind rank 0's, which may still listen
  if (!state_->over.ok()) return;
  state_->over =
      Status(Code::kShutDown, state_->rank_name(state_->config.rank) + " has shut down", state_->config.rank);
}

void Participant::end(const Status& why) {
  ErrorEvent ended{{}, why};
  for (auto& [number, set] : state_->sets) {
    state_->for_each_key(set, [&](State::Key& key) {
      for (const State::Operation& operation : key.pending) ended.tickets.push_back(operation.ticket);
      key.pending.clear();
    });
    if (set.join_ticket != kNoTicket) ended.tickets.push_back(std::exchange(set.join_ticket, kNoTicket));
    for (const State::Waiting& waiting : set.waiting) {
      for (const Request& request : waiting.requests) ended.tickets.push_back(request.ticket);
    }
    set.waiting.clear();
  }
  for (const Request& request : state_->take_receives()) ended.tickets.push_back(request.ticket);
  std::sort(ended.tickets.begin(), ended.tickets.end());
  if (!ended.tickets.empty()) state_->events.push_back(std::move(ended));
  state_->over = why;
}

void Participant::started(SetId id, uint64_t number) {
  State::Set* set = state_->find_set(id);
  if (set == nullptr || set->gone || !set->lowest || number < set->started) return;
  state_->proposals.record(id, ProposalKind::kCredit).varint(number + 1 - set->started);
  set->started = number + 1;
}

std::vector<std::byte> Participant::take_frame() {
  state_->freed = false;
  for (auto& [number, set] : state_->sets) {
    // Never a frame of its own: rank 0 can wait for these until this rank has something to say.
    if (set.evictions == 0 || set.gone || state_->proposals.empty()) continue;
    state_->proposals.record(set.id, ProposalKind::kEvictions).varint(std::exchange(set.evictions, 0));
  }
  return state_->proposals.take();
}

bool Participant::must_ring() const { return state_->freed; }

ProposalCounts Participant::counts() const { return state_->counts; }

std::string Participant::of_set(SetId number) const {
  const State::Set* set = state_->find_number(number);
  return number == kGlobalSet || set == nullptr ? "" : core::of_set(set->name, set->ranks);
}

std::vector<Event> Participant::take_events() { return std::exchange(state_->events, {}); }

std::vector<std::string> Participant::pending_names(size_t at_most) const {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (auto& [number, set] : state_->sets) {
    state_->for_each_key(set, [&found](const State::Key& key) {
      for (const State::Operation& operation : key.pending) {
        found.emplace_back(operation.ticket, !key.name.empty() ? key.name
                                                               : std::string(name_of(operation.kind)) + " #" +
                                                                     std::to_string(operation.occurrence));
      }
    });
    if (set.join_ticket != kNoTicket) found.emplace_back(set.join_ticket, name_of(OpKind::kJoin));
    for (const State::Waiting& waiting : set.waiting) {
      for (const Request& request : waiting.requests) {
        found.emplace_back(request.ticket, !request.name.empty() ? request.name : name_of(request.metadata.kind));
      }
    }
  }
  for (const auto& [name, own] : state_->receives) {
    for (const Request& request : own.waiting) {
      found.emplace_back(request.ticket, !name.empty() ? name : name_of(request.metadata.kind));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(at_most, found.size()); ++i) names.push_back(std::move(found[i].second));
  return names;
}

}  // namespace rueda::core
