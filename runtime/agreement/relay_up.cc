#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/agreement/relay_state.h"

namespace rueda::core {
namespace {

/// Of records that go up as they are, for the same ranks; what exceeds it takes another entry.
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

/// Steps by id, those that follow each other as one run. Counted from id 0 in each block of records.
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

Relay::State::State(const RelayConfig& given) : config(given), place_of(static_cast<size_t>(given.size), -1) {
  for (const RelayConfig::Child& child : config.children)
    below.insert(below.end(), child.ranks.begin(), child.ranks.end());
  std::sort(below.begin(), below.end());
  for (size_t place = 0; place < below.size(); ++place)
    place_of[static_cast<size_t>(below[place])] = static_cast<int>(place);
  for (const RelayConfig::Child& child : config.children) {
    Child& added = children.emplace_back(Child{child.kind, child.ranks, {}, 0, FrameQueue(config.epoch)});
    for (const int rank : child.ranks) added.places.push_back(place_of[static_cast<size_t>(rank)]);
  }
  held_of.assign(below.size(), 0);
  probing.assign(below.size(), 0);
  left.assign(below.size(), 0);
  for (const SetMembers& set : config.sets) add_set(set.id, set.ranks);
}

/// Records of the same ranks share an entry, up to a size that leaves room in a frame.
void Relay::State::append(const std::vector<int>& from, std::span<const std::byte> records) {
  std::vector<int> ranks;
  for (const int place : from) ranks.push_back(below[static_cast<size_t>(place)]);
  constexpr std::byte kTag{3};
  const bool alike = !upward.empty() && upward.back().id == 0 && (upward.back().records.front() & kTag) == kTag &&
                     (records.front() & kTag) == kTag;
  if (alike && upward.back().ranks == ranks && upward.back().records.size() + records.size() < kMaxEntryBytes) {
    upward.back().records.insert(upward.back().records.end(), records.begin(), records.end());
    return;
  }
  upward.push_back({std::move(ranks), 0, {records.begin(), records.end()}});
}

/// Steps by id, of which one with other metadata goes up as it is.
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

/// What a record that goes up as it is means for what is held.
bool Relay::State::note_record(const std::vector<int>& from, uint64_t word, WireReader& record) {
  const auto kind = static_cast<ProposalKind>((word >> 2) & 15);
  const auto known = word >> 6 > UINT32_MAX ? sets.end() : sets.find(static_cast<SetId>(word >> 6));
  if (kind == ProposalKind::kProbe) note_probe(from);
  const bool of_set = kind == ProposalKind::kFull || kind == ProposalKind::kEvictions || kind == ProposalKind::kJoin;
  if (!of_set) return true;
  if (known == sets.end()) return false;
  Set& set = known->second;
  const auto is_member = [&set](int place) { return set.has[static_cast<size_t>(place)] != 0; };
  if (!std::all_of(from.begin(), from.end(), is_member)) return false;
  if (kind == ProposalKind::kEvictions) return note_evictions_seen(from, set, record.varint());
  if (kind == ProposalKind::kFull) {
    const std::string text = record.text(kMaxNameBytes);
    count_direct(key_of(set, text, static_cast<uint8_t>(get_metadata(record).kind)), from);
  } else if (!std::exchange(set.joining, true)) {
    release_of(set.places);
  }
  return true;
}

/// Nothing that is sent to these ranks waits for them from now on: they wait for it themselves.
void Relay::State::note_probe(const std::vector<int>& from) {
  for (const int place : from) {
    if (std::exchange(probing[static_cast<size_t>(place)], char{1}) != 0) continue;
    for (auto& [id, set] : sets) {
      if (set.receiver != below[static_cast<size_t>(place)]) continue;
      set.probed = true;
      release_of(set.places);
    }
  }
}

bool Relay::State::note_evictions_seen(const std::vector<int>& from, Set& set, uint64_t count) {
  for (const int place : from) {
    uint64_t& seen = set.seen[static_cast<size_t>(place)];
    if (count > set.forgotten + set.evicted.size() - seen) return false;
    seen += count;
  }
  forget_evicted(set);
  return true;
}

/// Records of ranks that sent the same: steps by id, and what goes up as it is. `next_id` as in the frame they are
/// from.
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
  // Credits have an order of their own.
  if (kind != ProposalKind::kCredit) release_of(from);
  WireWriter record;
  record.varint(word);
  record.raw(rest);
  append(from, record.view());
  WireReader again(rest);
  return note_record(from, word, again);
}

bool Relay::State::take_relayed(const Child& child, WireReader& reader) {
  WireReader ahead = reader;
  std::vector<int> from = child.places;
  if (ahead.varint() == 0) {
    reader = ahead;
  } else {
    from.clear();
    for (const int rank : get_ranks(reader, config.size)) {
      if (!std::binary_search(child.ranks.begin(), child.ranks.end(), rank)) return false;
      from.push_back(place_of[static_cast<size_t>(rank)]);
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
                           ? state_->take_records(child.places, reader, frame, child.next_id)
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

void Relay::State::append_goodbye(int place) {
  if (left[static_cast<size_t>(place)] != 0) return;
  release_of({place});
  WireWriter record;
  record.varint(static_cast<uint64_t>(ProposalKind::kGoodbye) << 2 | 3);
  append({place}, record.view());
}

void Relay::dismiss(size_t child) {
  for (const int place : state_->children[child].places) state_->append_goodbye(place);
}

bool Relay::all_left() const { return state_->over || state_->left_count == state_->below.size(); }

size_t Relay::held() const { return state_->held; }

void Relay::acknowledged() { state_->unacknowledged = false; }

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
