// From proposals to agreement. Each proposal raises its member's count of the key, and the count before it is the
// number of the occurrence: links keep order, so no occurrence travels on the wire.
//
//   accept ─▶ count_proposal ─▶ (link) ─▶ complete_if_full ─▶ agree ─▶ push (arbiter_verdicts.cc)
//               compares with              all members?      └▶ fail ─▶ error verdict
//               the first one's
//
// Metadata is compared as proposals come in, by number if both have one, and only those that differ from the first are
// kept: in the good case a proposal costs one comparison of integers, and the sentence of a mismatch can still name
// all.
//
// Groups need care because ranks may disagree on what belongs together. Occurrences that any rank put into one group
// complete or fail together, so groups that overlap are merged (`link`, `merge`).
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/agreement/mismatch.h"

namespace rueda::core {

/// What the first member sent. It speaks for all once the occurrence is agreed.
const Metadata& Arbiter::State::metadata_of(const Entry& entry, const Occurrence& occurrence) const {
  return occurrence.number != kNoMetadata ? entry.set->metadata.at(occurrence.number) : *occurrence.own;
}

/// Matches a proposal outside a group at once. Collects the proposals of a group, and matches them when the group is
/// whole. Returns false if the sender has joined, or mixes something else into a group that it has begun.
bool Arbiter::State::accept(int rank, Entry& entry, uint32_t number, std::unique_ptr<Metadata> own) {
  // Metadata that came in full may have a number by now. With it, the comparison is one of integers.
  if (own != nullptr) {
    number = entry.set->metadata.find(*own);
    if (number != kNoMetadata) own.reset();
  }
  const Metadata& metadata = own != nullptr ? *own : entry.set->metadata.at(number);
  Rank& sender = ranks[static_cast<size_t>(rank)];
  if (entry.set->joined[static_cast<size_t>(entry.set->index[static_cast<size_t>(rank)])] != 0) return false;
  if (sender.group.empty() && metadata.group_size == 0) {
    const Ref ref = count_proposal(rank, entry, number, std::move(own));
    look_for_probe(rank, entry);
    complete_if_full(ref);
    return true;
  }
  if (sender.group.empty()) {
    sender.group_size = metadata.group_size;
  } else if (sender.group_size != metadata.group_size || sender.group.front().entry->set != entry.set) {
    return false;
  }
  // Not counted yet: a group that never becomes whole must leave no trace in the counts.
  sender.group.push_back({&entry, number, std::move(own)});
  if (sender.group.size() == sender.group_size) accept_group(rank);
  return true;
}

/// Counts a proposal for the member's next occurrence of the key, and opens that occurrence if the member is the first.
/// A member is at most one ahead of what is open: occurrences open one by one.
Arbiter::State::Ref Arbiter::State::count_proposal(int rank, Entry& entry, uint32_t number,
                                                   std::unique_ptr<Metadata> own) {
  const auto member = static_cast<size_t>(entry.set->index[static_cast<size_t>(rank)]);
  const uint64_t occurrence = entry.counts[member]++;
  // A key with an open occurrence is in use and must not be evicted.
  if (entry.open.empty()) take_from_rest(entry);
  if (occurrence - entry.base == entry.open.size()) entry.open.emplace_back();
  Occurrence& open = entry.at(occurrence);
  const MetadataTable& table = entry.set->metadata;
  const Metadata& sent = own != nullptr ? *own : table.at(number);
  if (sent.memory == MemoryKind::kPrivate) open.memory = MemoryKind::kPrivate;
  // The first proposal sets what the others are compared with.
  if (open.proposed++ == 0) {
    open.number = number;
    open.own = std::move(own);
    return {&entry, occurrence};
  }
  // Equal numbers are equal contents. Other numbers may differ in nothing but the memory of the tensors.
  const bool same = open.number != kNoMetadata && open.number == number;
  if (!same && !sent.agrees_with(metadata_of(entry, open))) {
    if (open.differing == nullptr) open.differing = std::make_unique<std::vector<Differing>>();
    open.differing->push_back({rank, sent});
  } else if (own != nullptr && sent.memory != metadata_of(entry, open).memory) {
    open.elsewhere = std::move(own);
  }
  return {&entry, occurrence};
}

/// Matches the proposals of a group, which is whole now, as if they had come at one moment.
void Arbiter::State::accept_group(int rank) {
  Rank& sender = ranks[static_cast<size_t>(rank)];
  std::vector<Ref> members;
  members.reserve(sender.group.size());
  for (Proposal& proposal : sender.group) {
    Entry& entry = *proposal.entry;
    // A group that comes in several frames can see an id of its beginning evicted before its end is here.
    if (entry.evicted) proposal.entry = &find_or_add(*entry.set, entry.name, entry.kind);
    members.push_back(count_proposal(rank, *proposal.entry, proposal.number, std::move(proposal.own)));
  }
  sender.group.clear();
  // Some of these may have failed already, with what another rank sent. The rest then fails for the same reason: a
  // group runs whole or not at all.
  Status failed;
  std::vector<Ref> alive;
  alive.reserve(members.size());
  for (const Ref& ref : members) {
    const Occurrence& occurrence = ref.entry->at(ref.occurrence);
    if (occurrence.stage != Stage::kFailed) {
      alive.push_back(ref);
    } else if (failed.ok()) {
      failed = occurrence.error;
    }
  }
  if (!alive.empty()) link(alive);
  if (!failed.ok() && !alive.empty()) fail(alive.front(), failed);
  for (const Ref& ref : members) {
    look_for_probe(rank, *ref.entry);
    complete_if_full(ref);
  }
}

/// Groups are recycled: a training step makes the same ones again, and a deque keeps the addresses of the others.
Arbiter::State::Group& Arbiter::State::new_group() {
  if (free_groups.empty()) return groups.emplace_back();
  Group& group = *free_groups.back();
  free_groups.pop_back();
  return group;
}

void Arbiter::State::release(Group& group) {
  group.members.clear();
  group.not_agreed = 0;
  free_groups.push_back(&group);
}

void Arbiter::State::merge(Group& into, Group& from) {
  for (const Ref& ref : from.members) ref.entry->at(ref.occurrence).group = &into;
  into.members.insert(into.members.end(), from.members.begin(), from.members.end());
  // Neither group was whole, so no member of either has left yet.
  into.not_agreed += from.not_agreed;
  release(from);
}

/// Unites what one rank sent as a group with what other ranks sent. If all ranks named the same members, only the first
/// rank's call has anything to do.
void Arbiter::State::link(std::span<const Ref> members) {
  Group* group = members.front().entry->at(members.front().occurrence).group;
  for (const Ref& ref : members) {
    Occurrence& occurrence = ref.entry->at(ref.occurrence);
    if (group == nullptr) group = occurrence.group != nullptr ? occurrence.group : &new_group();
    if (occurrence.group == group) continue;
    if (occurrence.group != nullptr) {
      merge(*group, *occurrence.group);
      continue;
    }
    occurrence.group = group;
    group->members.push_back(ref);
    ++group->not_agreed;
  }
}

/// Decides an occurrence that all members have proposed or are absent from. Absent members are counted here and not
/// earlier, since a member can join between the first proposal and the last.
void Arbiter::State::complete_if_full(const Ref& ref) {
  if (ref.occurrence < ref.entry->base) return;  // settled with its group
  Occurrence& occurrence = ref.entry->at(ref.occurrence);
  const uint32_t absent = absent_from(*ref.entry, ref.occurrence);
  if (occurrence.proposed + absent != ref.entry->counts.size()) return;
  if (occurrence.stage == Stage::kFailed) return settle(*ref.entry);  // the last member to hear of it
  if (occurrence.stage != Stage::kCollecting) return;  // decided before: a join looks at all that is open
  occurrence.absent = absent;
  if (occurrence.differing != nullptr) return fail(ref, mismatch(ref));
  if (Status why = no_neutral(ref); !why.ok()) return fail(ref, why);
  agree(ref);
}

/// The last member of a group to agree makes the whole group ready. An occurrence without a group is ready at once.
void Arbiter::State::agree(const Ref& ref) {
  Occurrence& occurrence = ref.entry->at(ref.occurrence);
  occurrence.stage = Stage::kAgreed;
  ++ref.entry->set->decided;
  if (occurrence.group == nullptr || --occurrence.group->not_agreed == 0) push(ref);
}

/// The sentence covers all members, so the list begins with what the first one sent, for each, and then takes over what
/// the others sent instead.
Status Arbiter::State::mismatch(const Ref& ref) const {
  const Entry& entry = *ref.entry;
  const Occurrence& occurrence = ref.entry->at(ref.occurrence);
  std::vector<Sent> sent;
  for (size_t member = 0; member < entry.counts.size(); ++member) {
    if (entry.counts[member] <= ref.occurrence) continue;  // it has joined
    sent.push_back({entry.set->members.ranks[member], &metadata_of(entry, occurrence)});
  }
  std::sort(sent.begin(), sent.end(), [](const Sent& a, const Sent& b) { return a.rank < b.rank; });
  for (const Differing& differing : *occurrence.differing) {
    const auto at = std::lower_bound(sent.begin(), sent.end(), differing.rank,
                                     [](const Sent& a, int rank) { return a.rank < rank; });
    at->metadata = &differing.metadata;
  }
  const std::string what = entry.name.empty() ? "#" + std::to_string(ref.occurrence) : "\"" + entry.name + "\"";
  return {Code::kMismatch, mismatch_sentence(what + of_set(*entry.set), sent, config.names)};
}

/// Writes one error verdict for the occurrence and everything that shares a group with it. Callers do not come here
/// once the occurrence was cut: part of its group may have run.
void Arbiter::State::fail(const Ref& ref, const Status& why) {
  Group* group = ref.entry->at(ref.occurrence).group;
  std::vector<Ref> failed{ref};
  if (group != nullptr) {
    failed.swap(group->members);
    release(*group);
  }
  Set& set = *ref.entry->set;
  ++set.decided;
  for (const Ref& each : failed) {
    Occurrence& occurrence = each.entry->at(each.occurrence);
    if (occurrence.stage == Stage::kReady) set.planner.remove(each.entry->id, each.occurrence);
    occurrence.group = nullptr;
    occurrence.error = why;
    // A verdict names keys by id, so a key that fails before its first batch gets its id now, without home metadata.
    announce(*each.entry, kNoMetadata);
  }
  // A very large group takes several records. `more` says that the next record belongs to the same failure, so that a
  // participant sees all of it before it decides what its own group has missed (`end_failure`). Each stage
  // changes right after its reference was taken, because participants move their floor operation by operation too.
  for (size_t begin = 0; begin < failed.size(); begin += kMaxRequests) {
    operations.clear();
    record.clear();
    record.u8(static_cast<uint8_t>(VerdictKind::kError));
    record.u8(failed.size() - begin > kMaxRequests ? 1 : 0);
    put_failure(record, why);
    for (size_t i = begin; i < std::min(failed.size(), begin + kMaxRequests); ++i) {
      operations.push_back(reference(failed[i]));
      failed[i].entry->at(failed[i].occurrence).stage = Stage::kFailed;
    }
    put_operations(record, operations);
    tell(set, operations.size());
  }
  for (const Ref& each : failed) settle(*each.entry);
}

}  // namespace rueda::core
