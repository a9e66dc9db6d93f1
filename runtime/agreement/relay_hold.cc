#include <algorithm>

#include "runtime/agreement/relay_state.h"

namespace rueda::core {

Relay::State::Key& Relay::State::key_of(Set& set, const std::string& name, uint8_t kind) {
  const auto [found, added] = set.keys.try_emplace({name, name.empty() ? kind : uint8_t{0}});
  Key& key = found->second;
  if (added) {
    key.set = &set;
    key.name = &found->first;
    key.proposed.assign(below.size(), 0);
    key.sent.assign(below.size(), 0);
  }
  return key;
}

/// Goes up for this rank alone. Ranks that come after each other for one id go together.
void Relay::State::push_up(int rank, uint64_t id) {
  const bool joins =
      !upward.empty() && upward.back().id == id && !upward.back().ranks.empty() && upward.back().ranks.back() < rank;
  if (joins) {
    upward.back().ranks.push_back(rank);
  } else {
    upward.push_back({{rank}, id, {}});
  }
}

/// A proposal by an id that is not the key's present one, or of a group, or where nobody waits, is not held.
bool Relay::State::propose(const std::vector<int>& from, uint64_t id) {
  Key* key = by_id.find(id);
  if (key == nullptr) return false;
  if (key->set->holds() && !key->grouped && id == key->id) {
    for (const int place : from) {
      if (key->set->has[static_cast<size_t>(place)] != 0) propose_held(*key, static_cast<size_t>(place));
    }
    merge_if_ready(*key);
    return true;
  }
  std::vector<int> members;
  for (const int place : from) {
    if (key->set->has[static_cast<size_t>(place)] != 0) members.push_back(place);
  }
  release_of(members);
  for (const int place : members) push_up(below[static_cast<size_t>(place)], id);
  count_direct(*key, members);
  return true;
}

void Relay::State::propose_held(Key& key, size_t place) {
  ++key.proposed[place];
  if (key.sent[place] < key.level) {
    ++key.sent[place];
    return push_up(below[place], key.id);
  }
  ++held;
  ++held_of[place];
  if (key.proposed[place] == key.level + 1) ++key.ready;
}

/// All members below have made the next occurrence: it leaves as one.
void Relay::State::merge_if_ready(Key& key) {
  while (key.ready == key.set->places.size() && key.ready != 0) {
    key.ready = 0;
    ++key.level;
    held -= key.set->places.size();
    for (const int member : key.set->places) {
      const auto place = static_cast<size_t>(member);
      --held_of[place];
      key.sent[place] = key.level;
      if (key.proposed[place] > key.level) ++key.ready;
    }
    upward.push_back({{}, key.id, {}});
  }
}

/// An occurrence that went up by itself: the others follow without being held.
void Relay::State::count_direct(Key& key, const std::vector<int>& from) {
  for (const int member : from) {
    const auto place = static_cast<size_t>(member);
    ++key.proposed[place];
    ++key.sent[place];
    key.level = std::max(key.level, key.sent[place]);
  }
  catch_up(key);
}

void Relay::State::send_held(Key& key, size_t place) {
  ++key.sent[place];
  --held;
  --held_of[place];
  push_up(below[place], key.id);
}

/// The level may have risen: who is behind it is not held any longer.
void Relay::State::catch_up(Key& key) {
  key.ready = 0;
  for (const int member : key.set->places) {
    const auto place = static_cast<size_t>(member);
    while (key.sent[place] < key.level && key.sent[place] < key.proposed[place]) send_held(key, place);
    if (key.proposed[place] > key.level) ++key.ready;
  }
  merge_if_ready(key);
}

/// What is held of these ranks goes up before what follows it.
void Relay::State::release_of(const std::vector<int>& from) {
  const auto holds = [this](int place) { return held_of[static_cast<size_t>(place)] != 0; };
  if (std::none_of(from.begin(), from.end(), holds)) return;
  for (auto& [id, set] : sets) {
    for (auto& [name, key] : set.keys) {
      bool moved = false;
      for (const int member : from) {
        const auto place = static_cast<size_t>(member);
        while (key.sent[place] < key.proposed[place]) {
          send_held(key, place);
          key.level = std::max(key.level, key.sent[place]);
          moved = true;
        }
      }
      if (moved) catch_up(key);
    }
  }
}

void Relay::State::release_key(Key& key) {
  for (const int member : key.set->places) {
    const auto place = static_cast<size_t>(member);
    while (key.sent[place] < key.proposed[place]) send_held(key, place);
    key.level = std::max(key.level, key.sent[place]);
  }
  key.ready = 0;
}

void Relay::State::drop_held(Key& key) {
  for (const int member : key.set->places) {
    const auto place = static_cast<size_t>(member);
    held -= key.proposed[place] - key.sent[place];
    held_of[place] -= key.proposed[place] - key.sent[place];
    key.sent[place] = key.proposed[place];
    key.level = std::max(key.level, key.sent[place]);
  }
  key.ready = 0;
}

void Relay::State::end_set(Set& set) {
  set.ended = true;
  for (auto& [name, key] : set.keys) drop_held(key);
}

/// An id that no rank below can propose any more. Its key goes with it where the next occurrence is the same for all.
void Relay::State::forget_evicted(Set& set) {
  uint64_t all_saw = UINT64_MAX;
  for (const int place : set.places) all_saw = std::min(all_saw, set.seen[static_cast<size_t>(place)]);
  for (; set.forgotten < all_saw && !set.evicted.empty(); ++set.forgotten) {
    const uint64_t id = set.evicted.front();
    set.evicted.pop_front();
    Key* key = by_id.find(id);
    by_id.erase(id);
    if (key == nullptr || key->id != id) continue;
    key->id = 0;
    const auto count = [key](int place) { return key->proposed[static_cast<size_t>(place)]; };
    const bool equal = std::all_of(set.places.begin(), set.places.end(), [&](int place) {
      return count(place) == count(set.places.front()) && key->sent[static_cast<size_t>(place)] == count(place);
    });
    if (equal) set.keys.erase(*key->name);
  }
}

void Relay::State::forget_set(SetId id) {
  const auto found = sets.find(id);
  if (found == sets.end()) return;
  end_set(found->second);
  for (const auto& [name, key] : found->second.keys) {
    if (key.id != 0) by_id.erase(key.id);
  }
  for (const uint64_t evicted : found->second.evicted) by_id.erase(evicted);
  sets.erase(found);
}

}  // namespace rueda::core
