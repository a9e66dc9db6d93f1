// Proposal frames of one rank, record by record, in the order of messages.h. Every value is checked before it is used:
// a frame comes from another process, and one that no correct rank would send ends the epoch with the sender's name.
//
//   frame ─▶ take_record ─▶ tag 0-2: take_step ─▶ take_by_id, take_with_metadata ─▶ accept (arbiter_match.cc)
//                       └─▶ tag 3:   by ProposalKind
//
// Records of a set that has ended are parsed and dropped: their sender could not know yet, so they are no offence.
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"

namespace rueda::core {

Status Arbiter::receive(int rank, std::span<const std::byte> frame) {
  const auto broken = [this, rank](const std::string& how) {
    return Status(Code::kPeerLost, state_->rank_name(rank) + " sent a proposal frame that " + how, rank);
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
    // The position goes into the sentence, so that a broken frame in a bug report can be read.
    const size_t at = frame.size() - reader.left();
    if (!state_->take_record(rank, reader) || !reader.ok()) {
      return broken("breaks the protocol in the record at byte " + std::to_string(at));
    }
  }
  return {};
}

/// Null for an id that was never given or is forgotten; ids on the wire may be longer than a SetId.
Arbiter::State::Set* Arbiter::State::find_set(uint64_t id) {
  const auto found = id > UINT32_MAX ? sets.end() : sets.find(static_cast<SetId>(id));
  return found == sets.end() ? nullptr : &found->second;
}

bool Arbiter::State::take_record(int rank, WireReader& reader) {
  const uint64_t word = reader.varint();
  if (!reader.ok()) return false;
  if ((word & 3) != 3) return take_step(rank, word, reader);
  const auto kind = static_cast<ProposalKind>((word >> 2) & 15);
  switch (kind) {
    case ProposalKind::kGoodbye: leave(rank); return true;
    case ProposalKind::kMakeSet: return take_make_set(rank, reader);
    case ProposalKind::kGiveUpSet: return take_give_up_set(rank, reader);
    case ProposalKind::kProbe: return take_probe(rank, reader);
    case ProposalKind::kDropProbe: return take_drop_probe(rank, reader);
    default: break;
  }
  // The kinds above name no set, or one that does not exist yet. All others speak of a set that the rank is a member
  // of.
  Set* set = find_set(word >> 6);
  if (set == nullptr || set->index[static_cast<size_t>(rank)] < 0) return false;
  switch (kind) {
    case ProposalKind::kFull: return take_full(rank, *set, reader);
    case ProposalKind::kCredit: return take_credit(rank, *set, reader.varint());
    case ProposalKind::kTimed: return take_timed(rank, *set, reader);
    case ProposalKind::kEvictions: return take_evictions_seen(rank, *set, reader.varint());
    case ProposalKind::kAbandonId:
    case ProposalKind::kAbandonKey: return take_abandon(rank, *set, kind, reader);
    case ProposalKind::kRemoveSet: return take_remove_set(rank, *set);
    case ProposalKind::kJoin: return take_join(rank, *set);
    default: return false;
  }
}

bool Arbiter::State::take_step(int rank, uint64_t word, WireReader& reader) {
  Rank& sender = ranks[static_cast<size_t>(rank)];
  const uint64_t tag = word & 3;
  const uint64_t first = sender.next_id + unzigzag(word >> 2);
  const uint64_t more = tag == 1 ? reader.varint(kMaxRequests) : 0;
  if (!reader.ok()) return false;
  // Steps are relative to the last id of this link, so a run of ids in the usual order is one or two bytes.
  sender.next_id = first + more + 1;
  if (tag == 2) return take_with_metadata(rank, first, reader);
  for (uint64_t id = first; id != sender.next_id; ++id) {
    if (!take_by_id(rank, id)) return false;
  }
  return true;
}

/// Returns the entry that a proposal by the id of `sent` means now, or null. `sent` is null if no entry has that id.
/// Sets `broken` if no correct rank would send it; null without `broken` means that the set has ended. An id that was
/// evicted while the proposal was on its way stands for its key, which may have a new entry or gets one here.
Arbiter::State::Entry* Arbiter::State::entry_for(int rank, Entry* sent, bool& broken) {
  broken = sent == nullptr || sent->set->index[static_cast<size_t>(rank)] < 0 || !sent->announced;
  if (broken || sent->set->ended) return nullptr;
  return sent->evicted ? &find_or_add(*sent->set, sent->name, sent->kind) : sent;
}

/// The steady state of a job: an id alone, which means the next occurrence with the id's home metadata.
bool Arbiter::State::take_by_id(int rank, uint64_t id) {
  bool broken = false;
  Entry* const sent = by_id.find(id);
  Entry* const entry = entry_for(rank, sent, broken);
  if (entry == nullptr) return !broken;
  // The home metadata is that of the id as sent. After an eviction the key's new entry may have another or none.
  const uint32_t home = sent->home;
  return home != kNoMetadata && accept(rank, *entry, home, nullptr);
}

/// An id with other metadata than its home, by the set's number for it or in full.
bool Arbiter::State::take_with_metadata(int rank, uint64_t id, WireReader& reader) {
  const uint64_t number = reader.varint(kMaxMetadata);
  std::unique_ptr<Metadata> own;
  if (number == 0) own = std::make_unique<Metadata>(get_metadata(reader));
  bool broken = !reader.ok();
  Entry* entry = broken ? nullptr : entry_for(rank, by_id.find(id), broken);
  if (entry == nullptr) return !broken;
  if (number > entry->set->metadata.size()) return false;
  return accept(rank, *entry, number == 0 ? kNoMetadata : static_cast<uint32_t>(number - 1), std::move(own));
}

/// A key that had no id when it was proposed. It may have one by now; then the two ways meet here.
bool Arbiter::State::take_full(int rank, Set& set, WireReader& reader) {
  const std::string name = reader.text(kMaxNameBytes);
  auto own = std::make_unique<Metadata>(get_metadata(reader));
  if (!reader.ok()) return false;
  if (set.ended) return true;
  Entry& entry = find_or_add(set, name, own->kind);
  return accept(rank, entry, kNoMetadata, std::move(own));
}

/// Credits are a count that only grows. More of them than batches were issued is a broken rank.
bool Arbiter::State::take_credit(int rank, Set& set, uint64_t count) {
  if (rank != set.lowest || count > set.issued - set.started) return false;
  set.started += count;
  return true;
}

/// Only the member that every correct rank knows as the set's lowest speaks of its batches.
bool Arbiter::State::take_timed(int rank, const Set& set, WireReader& reader) const {
  const TrialTime time = get_trial_time(reader);
  if (!reader.ok() || rank != set.lowest) return false;
  if (config.timed) config.timed(time);
  return true;
}

/// A count of evictions, in their order, since this rank's last report. It must not exceed what the rank was told.
bool Arbiter::State::take_evictions_seen(int rank, Set& set, uint64_t count) {
  uint64_t& seen = set.seen[static_cast<size_t>(set.index[static_cast<size_t>(rank)])];
  if (count > set.forgotten + set.evicted.size() - seen) return false;
  seen += count;
  if (!set.ended) forget_evicted(set);
  return true;
}

/// A rank gives up an operation, usually because its deadline has passed. `age` names the occurrence from the sender's
/// end: how many times it has proposed the key since. So the record means the same whatever has settled here meanwhile.
bool Arbiter::State::take_abandon(int rank, Set& set, ProposalKind kind, WireReader& reader) {
  Entry* entry = nullptr;
  if (kind == ProposalKind::kAbandonId) {
    entry = by_id.find(reader.varint());
    if (entry == nullptr || entry->set != &set) return false;
    // The operation may have gone on under the key's new id, or not at all.
    if (entry->evicted) entry = find_key(set, entry->name, entry->kind);
  } else {
    const uint8_t op_kind = reader.u8();
    const std::string name = reader.text(kMaxNameBytes);
    if (!reader.ok() || op_kind >= set.unnamed.size()) return false;
    entry = find_key(set, name, static_cast<OpKind>(op_kind));
  }
  const uint64_t age = reader.varint();
  std::string sentence = reader.text(kMaxSentenceBytes);
  if (!reader.ok()) return false;
  if (set.ended || entry == nullptr) return true;
  const uint64_t count = entry->counts[static_cast<size_t>(set.index[static_cast<size_t>(rank)])];
  if (age >= count || count - 1 - age < entry->base) return true;  // it has a verdict already
  const Ref ref{entry, count - 1 - age};
  // A cut occurrence will run: part of its group may be running on some rank already.
  const Stage stage = entry->at(ref.occurrence).stage;
  const bool open = stage == Stage::kCollecting || stage == Stage::kAgreed || stage == Stage::kReady;
  // Only while some members are missing does it help to say which.
  if (stage == Stage::kCollecting) sentence = bounded_sentence(sentence + ": " + who_has(ref));
  if (open) fail(ref, Status(Code::kTimeout, std::move(sentence), rank));
  return true;
}

}  // namespace rueda::core
