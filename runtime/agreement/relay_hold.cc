// What the relay holds, to let one proposal go up for all ranks below. Of a key with three members below:
//
//   rank          0  1  2
//   proposed      2  2  1      the level is 1: occurrence 0 went up for all
//   sent          1  1  1      ready is 2: ranks 0 and 1 have proposed occurrence 1, rank 2 has not
//                              rank 2 proposes: ready = 3, so occurrence 1 leaves as one and the level is 2
//
// Holding is only an economy. Whatever makes it wrong or useless (another id, a group, a join, a probe, a second
// without progress) sends what is held up rank by rank, and a rank that is behind the level is not held but follows at
// once. Rank 0 therefore counts as if it had heard every rank itself.
#include <algorithm>

#include "runtime/agreement/relay_state.h"

namespace rueda::core {

/// Named keys are the same for all kinds of operation, as at rank 0.
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

/// Sends a step up for this rank alone. Ascending ranks that follow each other for one id share an entry.
void Relay::State::push_up(int rank, uint64_t id) {
  const bool joins =
      !upward.empty() && upward.back().id == id && !upward.back().ranks.empty() && upward.back().ranks.back() < rank;
  if (joins) {
    upward.back().ranks.push_back(rank);
  } else {
    upward.push_back({{rank}, id, {}});
  }
}

/// Takes a proposal by id. It is not held if its id is not the key's present one, if the key belongs to a group, or if
/// the set does not hold (`Set::holds`): then it goes up at once, behind what is held of its rank.
bool Relay::State::propose(const std::vector<int>& from, uint64_t id) {
  Key* key = by_id.find(id);
  if (key == nullptr) return false;
  if (key->set->holds() && !key->grouped && id == key->id) {
    for (const int position : from) {
      if (key->set->has[static_cast<size_t>(position)] != 0) propose_held(*key, static_cast<size_t>(position));
    }
    merge_if_ready(*key);
    return true;
  }
  std::vector<int> members;
  for (const int position : from) {
    if (key->set->has[static_cast<size_t>(position)] != 0) members.push_back(position);
  }
  release_of(members);
  for (const int position : members) push_up(below[static_cast<size_t>(position)], id);
  count_direct(*key, members);
  return true;
}

/// Counts a proposal of one rank, and holds it unless the rank is behind the level.
void Relay::State::propose_held(Key& key, size_t position) {
  ++key.proposed[position];
  if (key.sent[position] < key.level) {
    ++key.sent[position];
    return push_up(below[position], key.id);
  }
  ++held;
  ++held_of[position];
  if (key.proposed[position] == key.level + 1) ++key.ready;
}

/// When all members below have made the next occurrence, it leaves as one. They may be several occurrences ahead.
void Relay::State::merge_if_ready(Key& key) {
  while (key.ready == key.set->positions.size() && key.ready != 0) {
    key.ready = 0;
    ++key.level;
    held -= key.set->positions.size();
    for (const int member : key.set->positions) {
      const auto position = static_cast<size_t>(member);
      --held_of[position];
      // Ranks that are further ahead are ready for the next occurrence at once, and the loop goes on.
      key.sent[position] = key.level;
      if (key.proposed[position] > key.level) ++key.ready;
    }
    upward.push_back({{}, key.id, {}});
  }
}

/// Counts an occurrence that went up by itself. It may raise the level: the other ranks then follow without being held.
void Relay::State::count_direct(Key& key, const std::vector<int>& from) {
  for (const int member : from) {
    const auto position = static_cast<size_t>(member);
    ++key.proposed[position];
    ++key.sent[position];
    key.level = std::max(key.level, key.sent[position]);
  }
  catch_up(key);
}

void Relay::State::send_held(Key& key, size_t position) {
  ++key.sent[position];
  --held;
  --held_of[position];
  push_up(below[position], key.id);
}

/// Sends up what is held of ranks behind the level, and counts the ready ones anew.
void Relay::State::catch_up(Key& key) {
  key.ready = 0;
  for (const int member : key.set->positions) {
    const auto position = static_cast<size_t>(member);
    // What others have sent alone cannot be merged any more, so this rank's share of it goes alone too.
    while (key.sent[position] < key.level && key.sent[position] < key.proposed[position]) send_held(key, position);
    if (key.proposed[position] > key.level) ++key.ready;
  }
  merge_if_ready(key);
}

/// Sends up what is held of these ranks, before other records of theirs: rank 0 must read each rank's in their order.
void Relay::State::release_of(const std::vector<int>& from) {
  const auto holds = [this](int position) { return held_of[static_cast<size_t>(position)] != 0; };
  if (std::none_of(from.begin(), from.end(), holds)) return;
  for (auto& [id, set] : sets) {
    for (auto& [name, key] : set.keys) {
      bool moved = false;
      for (const int member : from) {
        const auto position = static_cast<size_t>(member);
        while (key.sent[position] < key.proposed[position]) {
          send_held(key, position);
          key.level = std::max(key.level, key.sent[position]);
          moved = true;
        }
      }
      if (moved) catch_up(key);
    }
  }
}

/// Sends up all that is held of the key, before its id changes.
void Relay::State::release_key(Key& key) {
  for (const int member : key.set->positions) {
    const auto position = static_cast<size_t>(member);
    while (key.sent[position] < key.proposed[position]) send_held(key, position);
    key.level = std::max(key.level, key.sent[position]);
  }
  key.ready = 0;
}

/// Forgets what is held of the key: its set has ended, and rank 0 would drop the proposals.
void Relay::State::drop_held(Key& key) {
  for (const int member : key.set->positions) {
    const auto position = static_cast<size_t>(member);
    held -= key.proposed[position] - key.sent[position];
    held_of[position] -= key.proposed[position] - key.sent[position];
    key.sent[position] = key.proposed[position];
    key.level = std::max(key.level, key.sent[position]);
  }
  key.ready = 0;
}

void Relay::State::end_set(Set& set) {
  set.ended = true;
  for (auto& [name, key] : set.keys) drop_held(key);
}

/// Forgets ids that no rank below can propose any more. The key goes too if all ranks below have proposed it equally
/// often and nothing is held: its counts then say nothing that a new key would not.
void Relay::State::forget_evicted(Set& set) {
  uint64_t all_saw = UINT64_MAX;
  for (const int position : set.positions) all_saw = std::min(all_saw, set.seen[static_cast<size_t>(position)]);
  for (; set.forgotten < all_saw && !set.evicted.empty(); ++set.forgotten) {
    const uint64_t id = set.evicted.front();
    set.evicted.pop_front();
    Key* key = by_id.find(id);
    by_id.erase(id);
    if (key == nullptr || key->id != id) continue;
    key->id = 0;
    const auto count = [key](int position) { return key->proposed[static_cast<size_t>(position)]; };
    const bool equal = std::all_of(set.positions.begin(), set.positions.end(), [&](int position) {
      return count(position) == count(set.positions.front()) &&
             key->sent[static_cast<size_t>(position)] == count(position);
    });
    if (equal) set.keys.erase(*key->name);
  }
}

/// Forgets a set and the ids of its keys, present and evicted.
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
