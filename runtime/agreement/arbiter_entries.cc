// The arbiter's keys. A name that ranks propose again and again gets an id with its first verdict, and from then on an
// id replaces the name on the wire. Ids at rest are kept up to the cache's capacity and evicted by last use:
//
//   find_or_add ─▶ in use ─settle─▶ at rest (a list, oldest first) ─evict─▶ evicted ─all members saw it─▶ free
//                    ▲                  │
//                    └─count_proposal───┘
//
// The acknowledgement is necessary because a member may propose an id while the eviction is on its way to it. Until
// every member has reported the eviction as seen, the id still stands for its key (see `entry_for`). The design is in
// docs/decisions/0008-eviction-by-acknowledgement.md.
#include <algorithm>

#include "runtime/agreement/arbiter_state.h"

namespace rueda::core {

Arbiter::State::Entry* Arbiter::State::find_key(Set& set, std::string_view name, OpKind kind) const {
  if (name.empty()) return set.unnamed[static_cast<size_t>(kind)];
  const auto found = set.named.find(name);
  return found == set.named.end() ? nullptr : found->second;
}

/// The key's entry, or a new one with the next id. The id is unknown to the members until `announce`.
Arbiter::State::Entry& Arbiter::State::find_or_add(Set& set, std::string_view name, OpKind kind) {
  if (Entry* known = find_key(set, name, kind)) return *known;
  Entry* entry = nullptr;
  // Used again, because a job that names its tensors anew in each step would otherwise allocate for ever.
  if (free_entries.empty()) {
    entry = &entries.emplace_back();
  } else {
    entry = free_entries.back();
    free_entries.pop_back();
  }
  // Ids are never reused, although entries are: a late proposal by an old id must not find another key.
  entry->id = next_id++;
  entry->set = &set;
  entry->name.assign(name);
  entry->kind = kind;
  entry->home = kNoMetadata;
  entry->announced = false;
  entry->evicted = false;
  entry->base = 0;
  entry->counts.assign(set.members.ranks.size(), 0);
  by_id.insert(entry->id, entry);
  if (name.empty()) {
    set.unnamed[static_cast<size_t>(kind)] = entry;
  } else {
    // The map's key is a view of the entry's own string, so the string is stored once.
    set.named.emplace(entry->name, entry);
  }
  return *entry;
}

/// Drops the settled occurrences at the front. A failed one stays until all members have proposed it: until then the
/// slower members still count up to it, and `open[0]` must stay the oldest occurrence that any member may propose.
void Arbiter::State::settle(Entry& entry) {
  if (entry.open.empty()) return;
  do {
    const Occurrence& oldest_open = entry.open.front();
    const bool paid = oldest_open.stage == Stage::kFailed &&
                      oldest_open.proposed + absent_from(entry, entry.base) == entry.counts.size();
    if (oldest_open.stage != Stage::kSettled && !paid) return;
    entry.open.drop_front();
    ++entry.base;
  } while (!entry.open.empty());
  put_to_rest(entry);
}

/// Appends the entry to the list as the most recently used one.
void Arbiter::State::put_to_rest(Entry& entry) {
  if (entry.name.empty()) return;  // at most one for each kind of operation: never evicted
  entry.older = newest;
  entry.newer = nullptr;
  (newest != nullptr ? newest->newer : oldest) = &entry;
  newest = &entry;
  ++at_rest;
}

/// Takes the entry out of the list, because it is used again, evicted, or of a set that has ended.
void Arbiter::State::take_from_rest(Entry& entry) {
  if (entry.name.empty() || entry.base == 0) return;  // base 0: it has never been at rest
  (entry.older != nullptr ? entry.older->newer : oldest) = entry.newer;
  (entry.newer != nullptr ? entry.newer->older : newest) = entry.older;
  --at_rest;
}

/// Evicts the least recently used ids of all sets together, in one verdict for each set. The list is walked once per
/// set because a verdict goes to the members of one set only.
void Arbiter::State::evict_down_to_capacity() {
  for (auto& [id, set] : sets) {
    if (at_rest <= config.cache_capacity) return;
    operations.clear();
    Entry* next = oldest;
    for (uint64_t left = at_rest - config.cache_capacity; left != 0; --left) {
      Entry& entry = *next;
      next = entry.newer;
      if (entry.set != &set || operations.size() == kMaxRequests) continue;
      take_from_rest(entry);
      entry.evicted = true;
      set.named.erase(entry.name);
      set.evicted.push_back(&entry);
      operations.push_back({entry.id, 0});
    }
    if (operations.empty()) continue;
    record.clear();
    // Members need the ids alone; the occurrences in the list are 0.
    record.u8(static_cast<uint8_t>(VerdictKind::kEvict));
    record.varint(set.members.id);
    put_operations(record, operations);
    tell(set, operations.size());
  }
}

/// No member proposes to an ended set any more, so its ids take no capacity and need no eviction.
void Arbiter::State::drop_ended_from_rest() {
  for (Entry* next = oldest; next != nullptr;) {
    Entry& entry = *next;
    next = entry.newer;
    if (entry.set->ended) take_from_rest(entry);
  }
}

/// Frees the ids whose eviction every member has reported. Members see evictions in one order, so a count per member is
/// enough: the minimum of the counts is the number of evictions that all have seen.
void Arbiter::State::forget_evicted(Set& set) {
  const uint64_t all_saw = *std::min_element(set.seen.begin(), set.seen.end());
  for (; set.forgotten < all_saw; ++set.forgotten) {
    Entry* entry = set.evicted.front();
    set.evicted.pop_front();
    by_id.erase(entry->id);
    free_entries.push_back(entry);
  }
}

}  // namespace rueda::core
