// What comes from below and leaves upward. A proposal by id goes to relay_hold.cc, which may keep it until all ranks
// below have made it. Every other record goes up as it is, with the ranks that sent it, after what is held of those
// ranks.
//
//   take_records ─ tags 0, 1 ─▶ propose: held, merged, or sent for these ranks ─┐
//               ├─ tag 2     ─▶ release_of, append ─────────────────────────────┼─▶ `upward` ─▶ take_up
//               └─ tag 3     ─▶ release_of, append, note_record ────────────────┘
//
// Only one frame is on its way to the parent at a time. What becomes ready before it is acknowledged leaves in the
// next: the busier the parent, the more each frame holds, and no relay can flood it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/agreement/relay_state.h"

namespace rueda::core {
namespace {

/// Records that go up as they are share an entry up to this size, so that the entry fits in a frame beside others.
constexpr size_t kMaxEntryBytes = kMaxFrameBytes / 4;

/// Reads past what follows the word of a record of tag 3; fails the reader if it does not parse.
void skip_record(WireReader& reader, ProposalKind kind, int size) {
  switch (kind) {
    case ProposalKind::kFull:
      static_cast<void>(reader.text(kMaxNameBytes));
      static_cast<void>(get_metadata(reader));
      return;
    case ProposalKind::kCredit:
    case ProposalKind::kEvictions: static_cast<void>(reader.varint()); return;
    case ProposalKind::kTimed: static_cast<void>(get_trial_time(reader)); return;
    case ProposalKind::kAbandonId: static_cast<void>(reader.varint()); break;
    case ProposalKind::kAbandonKey:
      static_cast<void>(reader.u8());
      static_cast<void>(reader.text(kMaxNameBytes));
      break;
    case ProposalKind::kMakeSet:
      static_cast<void>(reader.text(kMaxNameBytes));
      static_cast<void>(get_ranks(reader, size));
      return;
    case ProposalKind::kGiveUpSet:
      static_cast<void>(reader.text(kMaxNameBytes));
      static_cast<void>(get_ranks(reader, size));
      static_cast<void>(reader.varint());
      static_cast<void>(get_failure(reader, size));
      return;
    case ProposalKind::kProbe:
      static_cast<void>(reader.varint());
      static_cast<void>(reader.text(kMaxNameBytes));
      static_cast<void>(get_ranks(reader, size));
      return;
    case ProposalKind::kDropProbe: static_cast<void>(reader.varint()); return;
    case ProposalKind::kGoodbye:
    case ProposalKind::kRemoveSet:
    case ProposalKind::kJoin: return;
    default: reader.fail(); return;
  }
  static_cast<void>(reader.varint());
  static_cast<void>(reader.text(kMaxSentenceBytes));
}

/// Writes steps by id; ids that follow each other become one run. Each block of records starts from id 0, since one
/// frame mixes ranks with different histories.
class ProposalSteps {
 public:
  void add(uint64_t id, WireWriter& writer) {
    if (more_ != 0 && id == first_ + more_) {
      ++more_;
      return;
    }
    end(writer);
    first_ = id;
    more_ = 1;
  }
  void end(WireWriter& writer) {
    if (more_ == 0) return;
    writer.varint(zigzag(first_ - next_id_) << 2 | (more_ > 1 ? 1 : 0));
    if (more_ > 1) writer.varint(more_ - 1);
    next_id_ = first_ + more_;
    more_ = 0;
  }

 private:
  uint64_t next_id_ = 0;
  uint64_t first_ = 0;
  uint64_t more_ = 0;  ///< of the run at hand
};

}  // namespace

Relay::State::State(const RelayConfig& given) : config(given), position_of(static_cast<size_t>(given.size), -1) {
  for (const RelayConfig::Child& child : config.children)
    below.insert(below.end(), child.ranks.begin(), child.ranks.end());
  std::sort(below.begin(), below.end());
  for (size_t position = 0; position < below.size(); ++position)
    position_of[static_cast<size_t>(below[position])] = static_cast<int>(position);
  for (const RelayConfig::Child& child : config.children) {
    Child& added = children.emplace_back(Child{child.kind, child.ranks, {}, 0, FrameQueue(config.epoch)});
    for (const int rank : child.ranks) added.positions.push_back(position_of[static_cast<size_t>(rank)]);
  }
  held_of.assign(below.size(), 0);
  probing.assign(below.size(), 0);
  left.assign(below.size(), 0);
  for (const SetMembers& set : config.sets) add_set(set.id, set.ranks);
}

/// Records of the same ranks share an entry, up to a size that leaves room in a frame.
void Relay::State::append(const std::vector<int>& from, std::span<const std::byte> records) {
  std::vector<int> ranks;
  for (const int position : from) ranks.push_back(below[static_cast<size_t>(position)]);
  // Only tag 3 records join: a step with metadata is coded from id 0, which holds for the first of a block only.
  constexpr std::byte kTag{3};
  const bool alike = !upward.empty() && upward.back().id == 0 && (upward.back().records.front() & kTag) == kTag &&
                     (records.front() & kTag) == kTag;
  if (alike && upward.back().ranks == ranks && upward.back().records.size() + records.size() < kMaxEntryBytes) {
    upward.back().records.insert(upward.back().records.end(), records.begin(), records.end());
    return;
  }
  upward.push_back({std::move(ranks), 0, {records.begin(), records.end()}});
}

/// Takes steps by id. A step with other metadata (tag 2) goes up as it is, re-coded to start from id 0.
bool Relay::State::take_steps(const std::vector<int>& from, uint64_t word, WireReader& reader,
                              std::span<const std::byte> bytes, uint64_t& next_id) {
  const uint64_t tag = word & 3;
  const uint64_t first = next_id + unzigzag(word >> 2);
  const uint64_t more = tag == 1 ? reader.varint(kMaxRequests) : 0;
  if (!reader.ok()) return false;
  next_id = first + more + 1;
  if (tag != 2) {
    for (uint64_t id = first; id != next_id; ++id) {
      if (!propose(from, id)) return false;
    }
    return true;
  }
  const size_t at = bytes.size() - reader.left();
  if (reader.varint(kMaxMetadata) == 0) static_cast<void>(get_metadata(reader));
  Key* key = by_id.find(first);
  if (!reader.ok() || key == nullptr) return false;
  release_of(from);
  WireWriter record;
  record.varint(zigzag(first) << 2 | 2);
  record.raw(bytes.subspan(at, bytes.size() - reader.left() - at));
  append(from, record.view());
  count_direct(*key, from);
  return true;
}

/// Learns what a record that goes up as it is means for what is held.
bool Relay::State::note_record(const std::vector<int>& from, uint64_t word, WireReader& record) {
  const auto kind = static_cast<ProposalKind>((word >> 2) & 15);
  const auto known = word >> 6 > UINT32_MAX ? sets.end() : sets.find(static_cast<SetId>(word >> 6));
  // Probes name no set: a receive from any rank concerns all pairs of its rank.
  if (kind == ProposalKind::kProbe) note_probe(from);
  const bool of_set = kind == ProposalKind::kFull || kind == ProposalKind::kEvictions || kind == ProposalKind::kJoin;
  if (!of_set) return true;
  if (known == sets.end()) return false;
  Set& set = known->second;
  const auto is_member = [&set](int position) { return set.has[static_cast<size_t>(position)] != 0; };
  if (!std::all_of(from.begin(), from.end(), is_member)) return false;
  if (kind == ProposalKind::kEvictions) return note_evictions_seen(from, set, record.varint());
  if (kind == ProposalKind::kFull) {
    const std::string text = record.text(kMaxNameBytes);
    count_direct(key_of(set, text, static_cast<uint8_t>(get_metadata(record).kind)), from);
    // The first join of the set. Occurrences are complete without the joined rank now, so nothing may wait for it here.
  } else if (!std::exchange(set.joining, true)) {
    release_of(set.positions);
  }
  return true;
}

/// These ranks receive from any rank. A message for them must not be held until they propose its receive, because they
/// propose that only once rank 0 has seen the message.
void Relay::State::note_probe(const std::vector<int>& from) {
  for (const int position : from) {
    if (std::exchange(probing[static_cast<size_t>(position)], char{1}) != 0) continue;
    for (auto& [id, set] : sets) {
      if (set.receiver != below[static_cast<size_t>(position)]) continue;
      set.probed = true;
      release_of(set.positions);
    }
  }
}

/// A relayed record may speak for many ranks, and then each of them has seen so many more.
bool Relay::State::note_evictions_seen(const std::vector<int>& from, Set& set, uint64_t count) {
  for (const int position : from) {
    uint64_t& seen = set.seen[static_cast<size_t>(position)];
    if (count > set.forgotten + set.evicted.size() - seen) return false;
    seen += count;
  }
  forget_evicted(set);
  return true;
}

/// Takes one record that all ranks of `from` sent. `next_id` is where steps of its frame or block have come to.
bool Relay::State::take_records(const std::vector<int>& from, WireReader& reader, std::span<const std::byte> bytes,
                                uint64_t& next_id) {
  const uint64_t word = reader.varint();
  if (!reader.ok()) return false;
  if ((word & 3) != 3) return take_steps(from, word, reader, bytes, next_id);
  const auto kind = static_cast<ProposalKind>((word >> 2) & 15);
  const size_t at = bytes.size() - reader.left();
  skip_record(reader, kind, config.size);
  if (!reader.ok()) return false;
  const std::span<const std::byte> rest = bytes.subspan(at, bytes.size() - reader.left() - at);
  // Credits and times do not depend on the order of proposals, and releasing for each would undo the merging.
  if (kind != ProposalKind::kCredit && kind != ProposalKind::kTimed) release_of(from);
  WireWriter record;
  record.varint(word);
  record.raw(rest);
  append(from, record.view());
  // Appended first, then noted: what the record lets go of must not overtake it.
  WireReader again(rest);
  return note_record(from, word, again);
}

/// Takes one block of a frame from a relay below. That relay may name only ranks behind it.
bool Relay::State::take_relayed(const Child& child, WireReader& reader) {
  WireReader ahead = reader;
  // A 0 means all ranks behind the child. A relay further down has merged for them.
  std::vector<int> from = child.positions;
  if (ahead.varint() == 0) {
    reader = ahead;
  } else {
    from.clear();
    for (const int rank : get_ranks(reader, config.size)) {
      if (!std::binary_search(child.ranks.begin(), child.ranks.end(), rank)) return false;
      from.push_back(position_of[static_cast<size_t>(rank)]);
    }
  }
  const std::span<const std::byte> records = reader.bytes(kMaxFrameBytes);
  WireReader inner(records);
  uint64_t next_id = 0;
  while (reader.ok() && inner.left() != 0) {
    if (!take_records(from, inner, records, next_id) || !inner.ok()) return false;
  }
  return reader.ok();
}

Relay::Relay(const RelayConfig& config) : state_(std::make_unique<State>(config)) {}
Relay::~Relay() = default;

Status Relay::from_below(size_t number, std::span<const std::byte> frame) {
  State::Child& child = state_->children[number];
  const auto broken = [&](const char* how) {
    return Status(Code::kPeerLost, "rank " + std::to_string(child.ranks.front()) + " sent a proposal frame that " + how,
                  child.ranks.front());
  };
  WireReader reader(frame);
  if (frame.size() > kMaxFrameBytes || reader.varint() != state_->config.epoch || !reader.ok()) {
    return broken("is too long or of another epoch");
  }
  while (reader.left() != 0) {
    const bool taken = child.kind == RelayConfig::Child::Kind::kRank
                           ? state_->take_records(child.positions, reader, frame, child.next_id)
                           : state_->take_relayed(child, reader);
    if (!taken || !reader.ok()) return broken("breaks the protocol");
  }
  return {};
}

void Relay::release() {
  std::vector<int> all(state_->below.size());
  std::iota(all.begin(), all.end(), 0);
  state_->release_of(all);
}

/// Says goodbye for a rank that can no longer do it itself, behind what is held of it.
void Relay::State::append_goodbye(int position) {
  if (left[static_cast<size_t>(position)] != 0) return;
  release_of({position});
  WireWriter record;
  record.varint(static_cast<uint64_t>(ProposalKind::kGoodbye) << 2 | 3);
  append({position}, record.view());
}

void Relay::dismiss(size_t child) {
  for (const int position : state_->children[child].positions) state_->append_goodbye(position);
}

bool Relay::all_left() const { return state_->over || state_->left_count == state_->below.size(); }

size_t Relay::held() const { return state_->held; }

void Relay::acknowledged() { state_->unacknowledged = false; }

/// Fills one frame, up to half of its limit so that the last block still fits. Blocks keep the order of `upward`.
std::vector<std::byte> Relay::take_up() {
  std::vector<State::Upward>& upward = state_->upward;
  if (state_->unacknowledged || upward.empty()) return {};
  WireWriter frame;
  frame.varint(state_->config.epoch);
  size_t i = 0;
  for (size_t requests = 0; i < upward.size() && frame.size() < kMaxFrameBytes / 2 && requests < kMaxRequests;) {
    // Steps of the same ranks go together; ids that follow each other become one run.
    const State::Upward& first = upward[i];
    ProposalSteps steps;
    WireWriter records;
    size_t end = i;
    for (; end < upward.size() && upward[end].ranks == first.ranks && requests < kMaxRequests; ++end, ++requests) {
      // Other records end the block, and begin one of their own: they are parsed in another way.
      if (upward[end].id != 0) {
        steps.add(upward[end].id, records);
        continue;
      }
      if (end != i) break;
      records.raw(upward[end].records);
      ++end;
      break;
    }
    steps.end(records);
    if (first.ranks.empty()) {
      frame.varint(0);
    } else {
      put_ranks(frame, first.ranks);
    }
    frame.bytes(records.view());
    i = end;
  }
  upward.erase(upward.begin(), upward.begin() + static_cast<std::ptrdiff_t>(i));
  state_->unacknowledged = true;
  return frame.take();
}

}  // namespace rueda::core
