// What a rank proposes. Requests go in, a frame for rank 0 comes out:
//
//   submit ─refusal─▶ hold_receive ─▶ enter ─set made─▶ propose ─▶ encode ─▶ take_frame
//             │            │            └ not yet: wait in the set, `start` proposes them
//             │            └ a receive from any rank waits for its sender (participant_receives.cc)
//             └ back at once, as an ErrorEvent
//
// A request is refused here only for what this rank alone can know. Everything that concerns other ranks is rank 0's to
// judge, so that all ranks hear the same sentence. Every ticket comes back in exactly one event: `pending`, `waiting`,
// `join_ticket` and `receives` hold the tickets that have none yet.
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

/// The sets of the start are made already: their numbers are their ids on every rank.
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

/// By this rank's own number, as calls of the application give it. A removed set is gone for them.
Participant::State::Set* Participant::State::find_number(SetId number) {
  const auto found = sets.find(number);
  return found == sets.end() || found->second.gone ? nullptr : &found->second;
}

/// Unnamed operations have one key for each kind: they match in the order of their calls.
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
  // A name with a number is looked up once; later steps hash no string.
  if (request.number == 0) return find_or_add(set, request.name, request.metadata.kind);
  if (request.number >= set.numbered.size()) set.numbered.resize(size_t{request.number} + 1);
  Key*& known = set.numbered[request.number];
  if (known == nullptr) {
    known = &find_or_add(set, request.name, request.metadata.kind);
    known->number = request.number;
  }
  return *known;
}

std::string Participant::State::rank_name(int rank) const { return rank_ranges({&rank, 1}, config.names); }

/// The sentence of an operation that fails because its set is over. It says what ended the set, what needed the set,
/// and, if steps seem to be uneven, what to do about that.
Status Participant::State::needs(const Set& set, std::string_view name, OpKind kind) const {
  std::string why = set.over.sentence() + "; " + name_of(kind);
  if (!name.empty()) {
    why.append(" \"").append(name).append("\"");
  } else if (kind != OpKind::kJoin) {
    why += " without a name";
  }
  why += " needs it";
  const int who = set.over.rank();
  if (who == 0 && !set.contains(0)) why += ", which decides what every set runs";
  const bool left_us = who >= 0 && who != config.rank && left[static_cast<size_t>(who)] != 0;
  if (left_us && ran_before(set, name, kind)) {
    why += ", and ran before: if ranks have different numbers of steps, those with fewer end with a join";
  }
  return {set.over.code(), why, who};
}

/// Whether the key has had a verdict. Then a rank that left has run fewer steps, and a join is what the user wants.
bool Participant::State::ran_before(const Set& set, std::string_view name, OpKind kind) {
  if (kind == OpKind::kJoin) return false;
  if (name.empty()) return set.unnamed[static_cast<size_t>(kind)].floor > 0;
  const auto known = set.named.find(name);
  return known != set.named.end() && known->second.floor > 0;
}

/// A malformed request must not reach the wire: there it would end the epoch as a broken frame. So everything that rank
/// 0 would take for a broken protocol is checked here first.
Status Participant::State::refusal(std::span<const Request> requests) {
  if (!over.ok()) return over;
  const Request& first = requests.front();
  const bool grouped = first.group != 0;
  for (const Request& request : requests) {
    if (request.group != first.group || request.set != first.set ||
        request.metadata.group_size != (grouped ? requests.size() : 0) ||
        request.metadata.group_hash != first.metadata.group_hash || requests.size() > kMaxGroupSize) {
      return {Code::kInvalidArgument, "a group of " + std::to_string(requests.size()) +
                                          " tensors is not one group: \"" + request.name.str() +
                                          "\" differs in set, group or size"};
    }
    if (const std::string why = why_not_valid(request); !why.empty()) return {Code::kInvalidArgument, why};
  }
  const Set* set = find_number(first.set);
  if (set == nullptr || !set->member) {
    return {Code::kInvalidArgument,
            rank_name(config.rank) + " is not a member of process set " + std::to_string(first.set)};
  }
  if (set->joined && first.metadata.kind != OpKind::kSend) {
    return {Code::kInvalidArgument, rank_name(config.rank) + " has joined process set " + std::to_string(first.set) +
                                        " and can submit nothing else to it until all members have joined"};
  }
  return {};
}

/// Chooses the shortest form: by id alone if the metadata is the id's home, by id and number, by id and metadata in
/// full, or by name as long as rank 0 has given no id.
void Participant::State::encode(Key& key, const Request& request) {
  ++(key.id == 0 ? counts.in_full : counts.by_id);
  if (key.id == 0) return proposals.full(key.set->id, request.name, request.metadata);
  // Compared by content: the caller's metadata carries no number.
  const MetadataTable& table = key.set->metadata;
  if (key.home != kNoMetadata && table.at(key.home) == request.metadata) {
    by_id_alone = key.id;
    return proposals.cached(key.id);
  }
  proposals.cached(key.id, table.find(request.metadata), request.metadata);
}

/// Proposes one request to a set that is made, or fails it if the set is over. Where this rank was owed an error for
/// the occurrence, the request gets that at once.
void Participant::State::propose(Set& set, const Request& request) {
  if (!set.over.ok()) {
    set.joined = false;
    events.push_back(ErrorEvent{{request.ticket}, needs(set, request.name, request.metadata.kind)});
    return;
  }
  if (request.metadata.kind == OpKind::kJoin) return join(set, request.ticket);
  Key& key = key_of(set, request);
  encode(key, request);
  // The proposal is sent even if the verdict is known to be an error: rank 0 counts it, and settles the failure.
  const uint64_t occurrence = key.count++;
  const auto owed = std::find_if(key.owed.begin(), key.owed.end(),
                                 [occurrence](const Owed& error) { return error.occurrence == occurrence; });
  if (owed == key.owed.end()) {
    key.pending.push_back({request.ticket, occurrence, request.metadata.kind, request.group != 0});
    return;
  }
  by_id_alone = 0;
  pay(set, *owed, request.group != 0);
  events.push_back(ErrorEvent{{request.ticket}, std::move(owed->status)});
  key.owed.erase(owed);
}

/// Counts an error of the failure as delivered. If this rank delivers it to a member of a group of its own, the rest of
/// the failure is levelled once the whole group is proposed: `propose_all` goes on then.
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

/// Proposes, without a ticket, each key of the failure that this rank would have to propose next. A key that is more
/// than one proposal behind keeps its error until then. Rank 0 ignores what is proposed to a failed occurrence, so the
/// metadata may be empty.
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

/// Errors that this rank is still owed are dropped: it proposes nothing until the join ends, and then its counters are
/// past them.
void Participant::State::join(Set& set, uint64_t ticket) {
  set.join_ticket = ticket;
  for_each_key(set, [](Key& key) { key.owed.clear(); });
  set.failures.clear();
  proposals.record(set.id, ProposalKind::kJoin);
}

Participant::Participant(const AgreementConfig& config) : state_(std::make_unique<State>(config)) {}
Participant::~Participant() = default;

uint64_t Participant::submit(std::span<const Request> requests) {
  if (requests.empty()) return 0;
  if (Status why = state_->refusal(requests); !why.ok()) {
    ErrorEvent refused{{}, std::move(why)};
    for (const Request& request : requests) refused.tickets.push_back(request.ticket);
    state_->events.push_back(std::move(refused));
    return 0;
  }
  if (state_->hold_receive(requests.front())) return 0;
  State::Set& set = *state_->find_number(requests.front().set);
  // Now and not with the proposal: a set that is still to be made refuses later requests as well.
  if (requests.front().metadata.kind == OpKind::kJoin) set.joined = true;
  state_->by_id_alone = 0;
  state_->enter(set, requests);
  return requests.front().group == 0 && requests.size() == 1 ? state_->by_id_alone : 0;
}

void Participant::State::enter(Set& set, std::span<const Request> requests) {
  if (set.id != kNoSetId || !set.over.ok()) return propose_all(set, requests);
  // One entry for each thing that can be abandoned: a group as a whole, others one by one.
  if (requests.front().group != 0) {
    set.waiting.push_back({{requests.begin(), requests.end()}, {}});
  } else {
    for (const Request& request : requests) set.waiting.push_back({{request}, {}});
  }
}

/// Names the operation by id, or by its key as long as rank 0 has given no id that this rank knows of.
void Participant::State::ask_abandon(const Key& key, const Operation& operation, const std::string& sentence) {
  WireWriter& writer =
      proposals.record(key.set->id, key.id != 0 ? ProposalKind::kAbandonId : ProposalKind::kAbandonKey);
  if (key.id != 0) {
    writer.varint(key.id);
  } else {
    writer.u8(static_cast<uint8_t>(key.kind));
    writer.text(key.name);
  }
  // The distance to the latest proposal means the same on both ends, whatever settles while the record travels.
  writer.varint(key.count - 1 - operation.occurrence);
  writer.text(bounded_sentence(sentence));
}

/// Operations that rank 0 does not know yet are settled here. All others need a verdict, because other ranks may have
/// proposed them: the batch, or an error for all, whichever rank 0 decides first.
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

/// Everything submitted so far stays in agreement and ends with its own verdict; only later requests fail.
void Participant::goodbye() {
  if (state_->leaving) return;
  state_->leaving = true;
  state_->proposals.record(kGlobalSet, ProposalKind::kGoodbye);  // also after rank 0's goodbye: it may still listen
  if (!state_->over.ok()) return;
  state_->over =
      Status(Code::kShutDown, state_->rank_name(state_->config.rank) + " has shut down", state_->config.rank);
}

/// No verdict will come any more, so every ticket that waits comes back now. Tickets are sorted, so that the event does
/// not depend on the order of hash tables.
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

/// Credits are sent as the number of batches since the last one, and only by the lowest member: one record for the set
/// is enough, since all members run its batches in the same order.
void Participant::started(SetId id, uint64_t number) {
  State::Set* set = state_->find_set(id);
  if (set == nullptr || set->gone || !set->lowest || number < set->started) return;
  state_->proposals.record(id, ProposalKind::kCredit).varint(number + 1 - set->started);
  set->started = number + 1;
}

/// Like credits, times come from one member: all of them ran the same batch.
void Participant::timed(SetId id, const TrialTime& time) {
  const State::Set* set = state_->find_set(id);
  if (set == nullptr || set->gone || !set->lowest) return;
  put_trial_time(state_->proposals.record(id, ProposalKind::kTimed), time);
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

void Participant::take_events(std::vector<Event>& taken) {
  taken.clear();
  taken.swap(state_->events);
}

/// In the order of tickets, with the same "kind #occurrence" for unnamed operations as in rank 0's sentences.
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
