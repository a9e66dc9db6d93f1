// What comes from above. Each verdict travels once per edge of the tree, with its audience in front: all ranks, one
// set, or one rank. The relay reads what it must know (sets, ids, goodbyes), then copies the verdict to each child that
// has a rank in the audience: with the audience for a relay, without it for a rank, which sees a plain verdict frame.
#include <algorithm>

#include "runtime/agreement/relay_state.h"
#include "runtime/base/own_names.h"

namespace rueda::core {

void Relay::State::add_set(SetId id, const std::vector<int>& ranks) {
  Set& set = sets[id];
  set.ranks = ranks;
  std::sort(set.ranks.begin(), set.ranks.end());
  set.has.assign(below.size(), 0);
  set.seen.assign(below.size(), 0);
  for (const int rank : set.ranks) {
    const int position = position_of[static_cast<size_t>(rank)];
    if (position < 0) continue;
    set.positions.push_back(position);
    set.has[static_cast<size_t>(position)] = 1;
  }
}

/// Whether any rank behind the child belongs to the audience. A set that this relay does not know has no rank below.
bool Relay::State::concerns(const Child& child, uint64_t audience) const {
  if (audience == 0) return true;
  // Even audiences are ranks, odd ones sets: see the picture in relay.h.
  if (audience % 2 == 0) {
    return std::binary_search(child.ranks.begin(), child.ranks.end(), static_cast<int>(audience / 2 - 1));
  }
  const auto set = sets.find(static_cast<SetId>(audience / 2));
  if (set == sets.end()) return false;
  return std::any_of(child.positions.begin(), child.positions.end(),
                     [&](int position) { return set->second.has[static_cast<size_t>(position)] != 0; });
}

bool Relay::State::learn_set(WireReader& verdict) {
  const auto id = static_cast<SetId>(verdict.varint(UINT32_MAX));
  const std::string name = verdict.text(kMaxNameBytes);
  const std::vector<int> ranks = get_ranks(verdict, config.size);
  if (!verdict.ok() || sets.count(id) != 0) return false;
  add_set(id, ranks);
  const auto pair = pair_of(name);
  // If the receiver of this pair has probed before, its messages are not held: they are what the probe waits for.
  const bool is_pair = pair && std::binary_search(ranks.begin(), ranks.end(), pair->second);
  if (!is_pair) return true;
  Set& set = sets.at(id);
  set.receiver = pair->second;
  const int position = position_of[static_cast<size_t>(pair->second)];
  set.probed = position >= 0 && probing[static_cast<size_t>(position)] != 0;
  return true;
}

/// A new id for a key. What is held of it was proposed by the id before and goes up first, so that rank 0 reads each
/// proposal under the id that its rank meant.
bool Relay::State::learn_key(Set& set, WireReader& verdict) {
  const uint64_t id = verdict.varint();
  const std::string name = verdict.text(kMaxNameBytes);
  const uint8_t kind = name.empty() ? verdict.u8() : uint8_t{0};
  const uint64_t home = verdict.varint(set.grouped.size());
  if (!verdict.ok() || id == 0 || by_id.find(id) != nullptr) return false;
  Key& key = key_of(set, name, kind);
  release_key(key);
  key.id = id;
  // A key whose home metadata is a group's is never held: members of a group leave together or not at all.
  key.grouped = home != 0 && set.grouped[home - 1] != 0;
  by_id.insert(id, &key);
  return true;
}

/// A rank has left. When all below have, or rank 0 has, nobody needs this relay any more (`all_left`). Sets of the
/// leaver end, and what is held of them is dropped.
bool Relay::State::learn_goodbye(WireReader& verdict) {
  const auto rank = static_cast<int>(verdict.varint(static_cast<uint64_t>(config.size - 1)));
  if (!verdict.ok()) return false;
  over = over || rank == 0;
  const int position = position_of[static_cast<size_t>(rank)];
  if (position >= 0 && left[static_cast<size_t>(position)] == 0) {
    left[static_cast<size_t>(position)] = 1;
    ++left_count;
  }
  for (auto& [id, set] : sets) {
    if (over || std::binary_search(set.ranks.begin(), set.ranks.end(), rank)) end_set(set);
  }
  return true;
}

/// All members have joined, and all counters are equal again, so counting starts afresh at 0. Nothing was held
/// meanwhile: a set with a joined member is not merged (`Set::holds`).
void Relay::State::learn_join_end(Set& set) {
  set.joining = false;
  for (auto& [name, key] : set.keys) {
    drop_held(key);
    std::fill(key.proposed.begin(), key.proposed.end(), 0);
    std::fill(key.sent.begin(), key.sent.end(), 0);
    key.level = 0;
  }
}

/// Learns from a verdict what concerns keys and sets. The others (batches, errors, answers to one rank) pass by.
bool Relay::State::learn(WireReader& verdict) {
  const auto kind = static_cast<VerdictKind>(verdict.u8());
  if (kind == VerdictKind::kSet) return learn_set(verdict);
  if (kind == VerdictKind::kGoodbye) return learn_goodbye(verdict);
  if (kind == VerdictKind::kBatch || kind == VerdictKind::kError || kind == VerdictKind::kNoSet ||
      kind == VerdictKind::kProbed) {
    return verdict.ok();
  }
  const auto found = sets.find(static_cast<SetId>(verdict.varint(UINT32_MAX)));
  if (!verdict.ok() || found == sets.end()) return false;
  Set& set = found->second;
  switch (kind) {
    case VerdictKind::kAssign: return learn_key(set, verdict);
    case VerdictKind::kDefine: set.grouped.push_back(get_metadata(verdict).group_size != 0 ? 1 : 0); break;
    case VerdictKind::kJoinEnd: learn_join_end(set); break;
    case VerdictKind::kEndSet: end_set(set); break;
    case VerdictKind::kForgetSet: break;  // forgotten once it has gone down: `concerns` needs the set
    case VerdictKind::kEvict: {
      std::vector<OperationRef> operations;
      get_operations(verdict, operations);
      for (const OperationRef& operation : operations) set.evicted.push_back(operation.id);
      break;
    }
    default: return false;
  }
  return verdict.ok();
}

/// Takes one verdict and hands it down. The relay learns before it copies, so that a verdict that makes a set finds its
/// audience; a set is forgotten after the copy, for the same reason.
bool Relay::State::take_addressed(WireReader& reader) {
  const uint64_t audience = reader.varint();
  const std::span<const std::byte> verdict = reader.bytes(kMaxFrameBytes);
  WireReader words(verdict);
  if (!reader.ok() || !learn(words)) return false;
  for (Child& child : children) {
    if (!concerns(child, audience)) continue;
    WireWriter& frame = child.down.reserve(verdict.size() + kMaxAudienceBytes, 0);
    // A relay needs the audience to go on; a rank gets the bare verdict.
    if (child.kind == RelayConfig::Child::Kind::kRelay) {
      frame.varint(audience);
      frame.bytes(verdict);
    } else {
      frame.raw(verdict);
    }
  }
  if (static_cast<VerdictKind>(verdict.front()) == VerdictKind::kForgetSet) {
    forget_set(static_cast<SetId>(audience / 2));
  }
  return true;
}

Status Relay::from_above(std::span<const std::byte> frame) {
  WireReader reader(frame);
  bool taken = frame.size() <= kMaxFrameBytes && reader.varint() == state_->config.epoch && reader.ok();
  while (taken && reader.left() != 0) taken = state_->take_addressed(reader) && reader.ok();
  if (taken) return {};
  return {Code::kPeerLost, "rank 0 sent an addressed frame that does not parse", 0};
}

std::vector<std::byte> Relay::take_down(size_t child) { return state_->children[child].down.take(); }

}  // namespace rueda::core
