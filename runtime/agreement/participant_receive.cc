// Verdict frames, record by record: what rank 0 decided becomes events for the engine. All members of a set read the
// same verdicts in the same order, so the counters here move alike on all of them, and a verdict can name an occurrence
// by its distance from `floor`, the oldest without one:
//
//   occurrence   0  1  2  3  4  5        floor = 2; 4 is in `ahead`, because its verdict came before that of 2 and 3;
//   verdict      x  x  .  .  x  .        "0 ahead" means 2, and once 2 and 3 have theirs, floor jumps to 5
//
// A verdict that does not fit the counters means that rank 0 and this rank disagree about the past. Nothing can be
// trusted after that, so it ends the epoch.
#include <iterator>
#include <utility>

#include "runtime/agreement/participant_state.h"

namespace rueda::core {

Status Participant::receive(std::span<const std::byte> frame) {
  const auto broken = [this](const std::string& how) {
    return Status(Code::kPeerLost, state_->rank_name(0) + " sent a verdict frame that " + how, 0);
  };
  if (frame.size() > kMaxFrameBytes) {
    return broken("has " + std::to_string(frame.size()) + " bytes, over the limit of " +
                  std::to_string(kMaxFrameBytes));
  }
  WireReader reader(frame);
  const uint64_t epoch = reader.varint();
  if (!reader.ok() || epoch != state_->config.epoch) {
    return broken("does not belong to epoch " + std::to_string(state_->config.epoch));
  }
  while (reader.left() != 0) {
    const size_t at = frame.size() - reader.left();
    if (!state_->take_verdict(reader) || !reader.ok()) {
      return broken("breaks the protocol in the record at byte " + std::to_string(at));
    }
  }
  return {};
}

bool Participant::State::take_verdict(WireReader& reader) {
  switch (static_cast<VerdictKind>(reader.u8())) {
    case VerdictKind::kAssign: return take_assign(reader);
    case VerdictKind::kDefine: return take_define(reader);
    case VerdictKind::kBatch: return take_batch(reader);
    case VerdictKind::kError: return take_error(reader);
    case VerdictKind::kEvict: return take_evictions(reader);
    case VerdictKind::kGoodbye: return take_goodbye(reader);
    case VerdictKind::kJoinEnd: return take_join_end(reader);
    case VerdictKind::kSet: return take_set(reader);
    case VerdictKind::kNoSet: return take_no_set(reader);
    case VerdictKind::kEndSet: return take_end_set(reader);
    case VerdictKind::kForgetSet: return take_forget_set(reader);
    case VerdictKind::kProbed: return take_probed(reader);
  }
  return false;
}

/// A key gets its id. The set may know the key, from requests of this rank, or not: other members proposed it first.
bool Participant::State::take_assign(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  const uint64_t id = reader.varint();
  const std::string name = reader.text(kMaxNameBytes);
  // Unnamed keys are told apart by their kind of operation, named ones by the name alone.
  const uint8_t kind = name.empty() ? reader.u8() : 0;
  const uint64_t home = reader.varint(kMaxMetadata);
  if (!reader.ok() || set == nullptr || kind >= set->unnamed.size() || home > set->metadata.size()) return false;
  // Ids are given once. A second one for a key would leave proposals by the first in doubt.
  if (id == 0 || by_id.find(id) != nullptr) return false;
  Key& key = find_or_add(*set, name, static_cast<OpKind>(kind));
  if (key.id != 0) return false;
  key.id = id;
  key.home = home == 0 ? kNoMetadata : static_cast<uint32_t>(home - 1);
  by_id.insert(id, &key);
  return true;
}

/// Metadata gets the next number. A repeated or surplus definition would shift all later numbers.
bool Participant::State::take_define(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  const Metadata metadata = get_metadata(reader);
  if (!reader.ok() || set == nullptr || set->metadata.find(metadata) != kNoMetadata) return false;
  return set->metadata.add(metadata) != kNoMetadata;
}

/// `ahead` lists are short: occurrences of one key nearly always get their verdicts in order, and only a failure
/// overtakes.
bool Participant::State::resolve(Key& key, uint64_t ahead, uint64_t& occurrence) {
  if (ahead > UINT64_MAX - key.floor) return false;
  occurrence = key.floor + ahead;
  if (ahead != 0) {
    if (std::find(key.ahead.begin(), key.ahead.end(), occurrence) != key.ahead.end()) return false;
    key.ahead.push_back(occurrence);
    return true;
  }
  // The oldest has its verdict now. Those behind it may have had theirs before: the floor moves past them.
  ++key.floor;
  for (auto next = key.ahead.begin(); next != key.ahead.end();) {
    next = std::find(key.ahead.begin(), key.ahead.end(), key.floor);
    if (next == key.ahead.end()) break;
    key.ahead.erase(next);
    ++key.floor;
    next = key.ahead.begin();
  }
  return true;
}

/// The front is tried first because it nearly always is the one.
bool Participant::State::remove_pending(Key& key, uint64_t occurrence, Operation& removed) {
  const auto is_it = [occurrence](const Operation& operation) { return operation.occurrence == occurrence; };
  if (key.pending.empty()) return false;
  if (is_it(key.pending.front())) {
    removed = key.pending.pop_front();
    return true;
  }
  const auto found = std::find_if(key.pending.begin(), key.pending.end(), is_it);
  if (found == key.pending.end()) return false;
  removed = *found;
  key.pending.remove_if(is_it);
  return true;
}

/// Reads how large each operation is. Only batches that some members are absent from carry this: an absent member may
/// never have seen the tensor.
bool Participant::State::take_extents(WireReader& reader, BatchEvent& batch) const {
  for (size_t i = 0; i < operations.size() && reader.ok(); ++i) {
    batch.counts.push_back(static_cast<int64_t>(reader.varint(kMaxTensorBytes)));
    if (batch.metadata.kind != OpKind::kReducescatter) continue;
    batch.rows.push_back(static_cast<int64_t>(reader.varint(kMaxTensorBytes)));
    if (batch.rows.back() == 0 || batch.counts.back() % batch.rows.back() != 0) return false;
  }
  return reader.ok();
}

/// A batch to run. The batch number is counted here, not sent: all members read the same batches of the set in the same
/// order. The event is complete in itself, so that the engine needs no table of agreement.
bool Participant::State::take_batch(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  BatchEvent batch;
  batch.stamp = reader.varint();
  batch.choice = get_choice(reader);
  batch.contributors = static_cast<int>(reader.varint(static_cast<uint64_t>(config.size)));
  const uint64_t number = reader.varint(kMaxMetadata);
  if (number == 0) batch.metadata = get_metadata(reader);
  operations.clear();
  get_operations(reader, operations);
  if (!reader.ok() || set == nullptr || number > set->metadata.size() || operations.empty()) return false;
  if (number != 0) batch.metadata = set->metadata.at(static_cast<uint32_t>(number - 1));
  if (batch.contributors != 0 && !take_extents(reader, batch)) return false;
  if (operations.size() == 1 && batch.contributors == 0) batch.key = operations.front().id;
  batch.set = set->id;
  batch.number = set->batches++;
  batch.tickets.reserve(operations.size());
  for (const OperationRef& operation : operations) {
    uint64_t ticket = kNoTicket;
    if (!take_operation(*set, operation, ticket)) return false;
    // Without absent members this rank must have proposed every operation of the batch.
    if (ticket == kNoTicket && batch.contributors == 0) return false;
    batch.tickets.push_back(ticket);
  }
  events.emplace_back(std::move(batch));
  return true;
}

/// Finds this rank's operation for one entry of a batch. It has none if it has joined.
bool Participant::State::take_operation(Set& set, const OperationRef& operation, uint64_t& ticket) {
  Key* key = by_id.find(operation.id);
  uint64_t occurrence = 0;
  if (key == nullptr || key->set != &set || !resolve(*key, operation.ahead, occurrence)) return false;
  // No ticket is right only for a rank that has joined: it runs the batch with the neutral element.
  Operation removed{kNoTicket, 0, OpKind::kAllreduce, false};
  const bool pending = remove_pending(*key, occurrence, removed);
  ticket = removed.ticket;
  return pending || set.joined;
}

bool Participant::State::take_error(WireReader& reader) {
  const uint8_t more = reader.u8();
  ErrorEvent error{{}, get_failure(reader, config.size)};
  operations.clear();
  get_operations(reader, operations);
  if (!reader.ok() || more > 1 || operations.empty()) return false;
  // This rank has proposed some of the operations, and they fail now. For the others it keeps the error until it
  // proposes them: `owed`. A joined rank never will.
  Set* set = nullptr;
  for (const OperationRef& operation : operations) {
    Key* key = by_id.find(operation.id);
    uint64_t occurrence = 0;
    Operation removed{};
    if (key == nullptr || !resolve(*key, operation.ahead, occurrence)) return false;
    set = key->set;
    if (remove_pending(*key, occurrence, removed)) {
      error.tickets.push_back(removed.ticket);
      failing.grouped = failing.grouped || removed.grouped;
    } else if (!set->joined) {
      key->owed.push_back({occurrence, error.status, failing.number});
      failing.missed.push_back(operation.id);
    }
  }
  // Nothing of it may be this rank's: then the application hears of the failure when it proposes.
  if (!error.tickets.empty()) events.emplace_back(std::move(error));
  if (more == 0) end_failure(*set);
  return true;
}

/// Called when all that failed together is known. If this rank's own group was part of it, the rank has said all that
/// it will say and levels the rest now. If not, the failure is remembered until the rank proposes some of it. A failure
/// of a single key needs neither: its error is paid when the key is proposed.
void Participant::State::end_failure(Set& set) {
  Failure failure = std::exchange(failing, Failure{failing.number + 1, {}, false});
  if (failure.grouped && over.ok() && set.over.ok() && !set.joined) return level(failure.missed, failure.number);
  const size_t count = failure.missed.size();
  if (count > 1) set.failures.emplace(failure.number, OwedFailure{std::move(failure.missed), count});
}

/// Evictions are reported back with the next frame, as a count.
bool Participant::State::take_evictions(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  operations.clear();
  get_operations(reader, operations);
  if (!reader.ok() || set == nullptr) return false;
  for (const OperationRef& operation : operations) {
    if (!evict(*set, operation.id)) return false;
  }
  return true;
}

/// What this rank has proposed since rank 0 evicted the id is counted there under the key's next id, from 0. So the
/// counters start afresh here too, and what is pending is renumbered. An evicted key was at rest at rank 0: nothing
/// owed, nothing ahead, and everything proposed since is pending.
bool Participant::State::evict(Set& set, uint64_t id) {
  Key* key = by_id.find(id);
  if (key == nullptr || key->set != &set || !key->owed.empty() || !key->ahead.empty()) return false;
  // A joined rank proposed less than the others, and its count is behind the verdicts that it read.
  if (set.joined) key->count = std::max(key->count, key->floor);
  if (key->count < key->floor || key->count - key->floor != key->pending.size()) return false;
  ++set.evictions;
  by_id.erase(id);
  key->id = 0;
  key->home = kNoMetadata;
  key->count -= std::exchange(key->floor, 0);
  uint64_t occurrence = 0;
  for (Operation& operation : key->pending) operation.occurrence = occurrence++;
  // An idle key is dropped. Names that a job never uses again would otherwise fill the table for the rest of the epoch.
  if (key->pending.empty() && !key->name.empty()) {
    if (key->number != 0) set.numbered[key->number] = nullptr;
    set.named.erase(set.named.find(key->name));
  }
  return true;
}

/// Everything that any member had proposed has its verdict, so the floor of each key is the set's maximum and the same
/// on all members. The counts are set to it, and all members propose the same occurrences again.
bool Participant::State::take_join_end(WireReader& reader) {
  Set* set = find_set(static_cast<SetId>(reader.varint(UINT32_MAX)));
  const auto last = static_cast<int>(reader.varint(static_cast<uint64_t>(config.size - 1)));
  if (!reader.ok() || set == nullptr || set->join_ticket == kNoTicket) return false;
  bool settled = true;
  for_each_key(*set, [&settled](Key& key) {
    settled = settled && key.pending.empty() && key.ahead.empty();
    key.count = key.floor;
  });
  set->joined = false;
  events.emplace_back(JoinEvent{std::exchange(set->join_ticket, kNoTicket), last});
  return settled;
}

/// A rank has left, at this point of the order. Sets that it is a member of end; with rank 0, or this rank's own
/// goodbye, everything ends. Receives from any rank go on while another sender is left.
bool Participant::State::take_goodbye(WireReader& reader) {
  const auto rank = static_cast<int>(reader.varint(static_cast<uint64_t>(config.size - 1)));
  if (!reader.ok()) return false;
  const bool ends_epoch = rank == 0 || rank == config.rank;
  left[static_cast<size_t>(rank)] = 1;
  // A relay that shut down said goodbye for this rank. The sentence names the relay, since this rank did nothing.
  const bool dismissed = rank == config.rank && !leaving;
  const int who = dismissed ? config.upstream : rank;
  const Status why(
      Code::kShutDown,
      rank_name(who) + " has shut down" + (dismissed ? ", and this rank reached the others through it" : ""), who);
  for (auto& [number, set] : sets) {
    if (ends_epoch || set.contains(rank)) end_set(set, why);
  }
  if (ends_epoch && over.ok()) over = why;
  if (ends_epoch) {
    for (const Request& request : take_receives()) {
      events.emplace_back(
          ErrorEvent{{request.ticket}, needs(sets.at(request.set), request.name, request.metadata.kind)});
    }
  } else {
    review_receives();
  }
  events.emplace_back(GoodbyeEvent{rank});
  return true;
}

}  // namespace rueda::core
