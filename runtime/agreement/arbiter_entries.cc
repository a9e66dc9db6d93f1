#include <algorithm>

#include "runtime/agreement/arbiter_state.h"

namespace rueda::core {

Arbiter::State::Entry* Arbiter::State::find_key(Set& set, std::string_view name, OpKind kind) const {
  if (name.empty()) return set.unnamed[static_cast<size_t>(kind)];
  const auto found = set.named.find(name);
  return found == set.named.end() ? nullptr : found->second;
}

Arbiter::State::Entry& Arbiter::State::find_or_add(Set& set, std::string_view name, OpKind kind) {
  if (Entry* known = find_key(set, name, kind)) return *known;
  Entry* entry = nullptr;
  if (free_entries.empty()) {
    entry = &entries.emplace_back();
  } else {
    entry = free_entries.back();
    free_entries.pop_back();
  }
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
    set.named.emplace(entry->name, entry);
  }
  return *entry;
}

void Arbiter::State::settle(Entry& entry) {
  if (entry.open.empty()) return;
  do {
    const Occurrence& oldest_open = entry.open.front();
    const bool paid = oldest_open.stage == Stage::kFailed &&
                      oldest_open.proposed + absent_from(entry, entry.base) == entry.counts.size();
    if (oldest_open.stage != Stage::kSettled && !paid) return;
    entry.open.pop_front();
    ++entry.base;
  } while (!entry.open.empty());
  put_to_rest(entry);
}

void Arbiter::State::put_to_rest(Entry& entry) {
  if (entry.name.empty()) return;  // at most one for each kind of operation: never evicted
  entry.older = newest;
  entry.newer = nullptr;
  (newest != nullptr ? newest->newer : oldest) = &entry;
  newest = &entry;
  ++at_rest;
}

void Arbiter::State::take_from_rest(Entry& entry) {
  if (entry.name.empty() || entry.base == 0) return;  // base 0: it has never been at rest
  (entry.older != nullptr ? entry.older->newer : oldest) = entry.newer;
  (entry.newer != nullptr ? entry.newer->older : newest) = entry.older;
  --at_rest;
}

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
    record.u8(static_cast<uint8_t>(VerdictKind::kEvict));
    record.varint(set.members.id);
    put_operations(record, operations);
    tell(set, operations.size());
  }
}

/// Nobody proposes to an ended set any more: its ids need no place and no eviction.
void Arbiter::State::drop_ended_from_rest() {
  for (Entry* next = oldest; next != nullptr;) {
    Entry& entry = *next;
    next = entry.newer;
    if (entry.set->ended) take_from_rest(entry);
  }
}

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
