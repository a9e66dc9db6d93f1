// Joins. A member that has run out of data joins its set: until all members have joined, the others go on alone, and
// the joined member contributes the neutral element (neutral.h) to each of their operations. For the arbiter a joined
// member is *absent*: an occurrence is complete when proposals plus absent members make up the set.
//
//   take_join        the member counts as absent in every occurrence it has not proposed; some are complete at once
//   no_neutral       an operation that needs every member fails, because an absent one has nothing to contribute
//   end_join_if_all  all have joined: the counters are made equal, and everyone starts afresh
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/agreement/neutral.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

/// How many members contribute nothing to the occurrence because they have joined before it.
uint32_t Arbiter::State::absent_from(const Entry& entry, uint64_t occurrence) {
  const Set& set = *entry.set;
  if (set.joined_count == 0) return 0;
  uint32_t absent = 0;
  for (size_t member = 0; member < entry.counts.size(); ++member) {
    if (set.joined[member] != 0 && entry.counts[member] <= occurrence) ++absent;
  }
  return absent;
}

/// Ok, or the mismatch of an operation that an absent member cannot take part in. The reduction itself may have no
/// neutral element; or the result would go to a root that has joined, so no rank would ever receive it.
Status Arbiter::State::no_neutral(const Ref& ref) const {
  const Entry& entry = *ref.entry;
  const Occurrence& occurrence = ref.entry->at(ref.occurrence);
  if (occurrence.absent == 0) return {};
  const Metadata& metadata = metadata_of(entry, occurrence);
  std::vector<int> absent;
  for (size_t member = 0; member < entry.counts.size(); ++member) {
    const bool contributes = entry.counts[member] > ref.occurrence;
    if (!contributes) absent.push_back(entry.set->members.ranks[member]);
  }
  std::sort(absent.begin(), absent.end());
  std::string why = why_no_neutral(metadata);
  if (why.empty() && std::binary_search(absent.begin(), absent.end(), metadata.root)) {
    why = "the result would go to its root, rank " + std::to_string(metadata.root);
  }
  if (why.empty()) return {};
  const std::string what = entry.name.empty() ? " without a name" : " \"" + entry.name + "\"";
  const std::string who = rank_ranges(absent, config.names) + (absent.size() == 1 ? " has" : " have");
  return {Code::kMismatch, name_of(metadata.kind) + what + of_set(*entry.set) + ": " + who + " joined, and " + why,
          absent.front()};
}

/// Completes what waited for this rank only. A failed occurrence that only this rank had yet to propose is settled.
bool Arbiter::State::take_join(int rank, Set& set) {
  const auto member = static_cast<size_t>(set.index[static_cast<size_t>(rank)]);
  const std::vector<Proposal>& group = ranks[static_cast<size_t>(rank)].group;
  if (set.ended) return true;
  // A rank joins once, and not in the middle of a group: both would break the protocol.
  if (set.joined[member] != 0 || (!group.empty() && group.front().entry->set == &set)) return false;
  set.joined[member] = 1;
  ++set.joined_count;
  // A join is progress: the stall report counts the quiet time of a set from the last decision.
  ++set.decided;
  set.last_joined = rank;
  // Collected first, because completing one settles others and changes the `open` of their entries.
  std::vector<Ref> open;
  const auto collect = [&open](Entry* entry) {
    for (size_t i = 0; entry != nullptr && i < entry->open.size(); ++i) open.push_back({entry, entry->base + i});
  };
  for (Entry* entry : set.unnamed) collect(entry);
  for (const auto& [name, entry] : set.named) collect(entry);
  // By id, so that what completes together has one order, whatever the order of the hash table.
  std::sort(open.begin(), open.end(), [](const Ref& a, const Ref& b) {
    return a.entry->id != b.entry->id ? a.entry->id < b.entry->id : a.occurrence < b.occurrence;
  });
  for (const Ref& ref : open) complete_if_full(ref);
  return true;
}

/// When all members have joined, none can propose, and everything that any of them proposed has left in a batch. Every
/// member's count of each key then goes to the maximum over the members, so that the next proposal of each member is
/// the same occurrence. The participants do the same with their floors when they read the verdict (`take_join_end`).
void Arbiter::State::end_join_if_all(Set& set) {
  if (set.ended || set.joined_count != set.joined.size() || set.waiting()) return;
  const auto level = [](Entry* entry) {
    if (entry == nullptr) return;
    const uint64_t most = *std::max_element(entry->counts.begin(), entry->counts.end());
    std::fill(entry->counts.begin(), entry->counts.end(), most);
  };
  for (Entry* entry : set.unnamed) level(entry);
  for (const auto& [name, entry] : set.named) level(entry);
  std::fill(set.joined.begin(), set.joined.end(), char{0});
  set.joined_count = 0;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kJoinEnd));
  record.varint(set.members.id);
  record.varint(static_cast<uint64_t>(set.last_joined));
  tell(set, 0);
}

}  // namespace rueda::core
