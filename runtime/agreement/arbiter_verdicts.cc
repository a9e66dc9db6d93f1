// Verdicts: ready occurrences become batches, and members are told. All verdicts go through `tell`, so every member of
// a set reads the same records in the same order: that order is what makes the batches of all ranks the same.
//
//   push ─▶ Planner ─▶ cut_next ─▶ choose the algorithm ─▶ issue ─▶ tell ─▶ frames of all members
//                         └▶ a group in several batches: `cut`, one piece for each credit ─▶ issue
//
// In front of a batch its members may need two other records, in this order: kDefine gives metadata a number, kAssign
// gives a key its id and its home metadata by that number. Each is sent once, before its first use.
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"

namespace rueda::core {
namespace {

/// A barrier moves no elements, whatever its metadata says.
int64_t elements_of(const Metadata& metadata) { return metadata.kind == OpKind::kBarrier ? 0 : metadata.count(); }

/// What a member that has joined needs to take part: it may never have seen the tensor.
void put_extent(WireWriter& writer, const Metadata& metadata) {
  const int64_t elements = elements_of(metadata);
  writer.varint(static_cast<uint64_t>(elements));
  if (metadata.kind != OpKind::kReducescatter) return;
  // A reduce-scatter deals out rows, and a joined member has to know where they end. 1 stands for a tensor without
  // rows.
  const bool has_rows = elements != 0 && !metadata.shape.empty();
  writer.varint(static_cast<uint64_t>(has_rows ? elements / metadata.shape.front() : 1));
}

/// Of an exchange they count as 0, also if the rows are known: whether ranks say them must not decide how they are cut.
uint64_t bytes_of(const Metadata& metadata) {
  if (exchanges(metadata.kind)) return 0;
  return static_cast<uint64_t>(metadata.count()) * size_of(metadata.dtype);
}

/// A member that has joined has no tensor that others could read.
template <typename Occurrence>
MemoryKind common_memory(const Occurrence& occurrence) {
  return occurrence.absent == 0 ? occurrence.memory : MemoryKind::kPrivate;
}

}  // namespace

/// Counts the occurrence from the oldest without a verdict, a point that every member knows: verdicts reach all in one
/// order. The distance is nearly always 0 and then takes no byte.
OperationRef Arbiter::State::reference(const Ref& ref) const {
  const Entry& entry = *ref.entry;
  // Failed and settled occurrences at the front have their verdicts, and are open only for slower members to count
  // past.
  uint64_t floor = 0;
  while (floor < entry.open.size() &&
         (entry.open[floor].stage == Stage::kFailed || entry.open[floor].stage == Stage::kSettled)) {
    ++floor;
  }
  return {entry.id, ref.occurrence - entry.base - floor};
}

/// Sends the scratch record to all members. `kYes`: it is a batch, in which each member has an operation or a join, or
/// what comes in front of a batch.
void Arbiter::State::tell(const Set& set, size_t requests, Expected expected) {
  if (config.relayed) return address(uint64_t{set.members.id} * 2 + 1, requests);
  for (const int rank : set.members.ranks) {
    Rank& member = ranks[static_cast<size_t>(rank)];
    member.frames.reserve(record.size(), requests).raw(record.view());
    if (expected == Expected::kNo) member.rings = true;
  }
}

/// Sends the scratch record to one rank. For answers that mean nothing to the other members.
void Arbiter::State::tell_one(int rank) {
  if (config.relayed) return address(static_cast<uint64_t>(rank) * 2 + 2, 0);
  Rank& member = ranks[static_cast<size_t>(rank)];
  member.frames.reserve(record.size(), 0).raw(record.view());
  member.rings = true;
}

/// Returns the set's number for the metadata, and tells the members when the number is new.
uint32_t Arbiter::State::define(Set& set, const Metadata& metadata) {
  uint32_t number = set.metadata.find(metadata);
  if (number != kNoMetadata) return number;
  // When the table is full the metadata travels in full with each batch: slower, never wrong.
  number = set.metadata.add(metadata);
  if (number == kNoMetadata) return number;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kDefine));
  record.varint(set.members.id);
  put_metadata(record, metadata);
  tell(set, 0, Expected::kYes);
  return number;
}

/// Gives the key's id to all members, with the metadata that a proposal by id alone means from now on. A key that
/// changes its shape keeps its home; such proposals carry their metadata's number.
void Arbiter::State::announce(Entry& entry, uint32_t home) {
  if (entry.announced) return;
  entry.announced = true;
  entry.home = home;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kAssign));
  record.varint(entry.set->members.id);
  record.varint(entry.id);
  record.text(entry.name);
  if (entry.name.empty()) record.u8(static_cast<uint8_t>(entry.kind));
  record.varint(home == kNoMetadata ? 0 : uint64_t{home} + 1);
  tell(*entry.set, 0, Expected::kYes);
}

/// Hands an agreed occurrence, or the group that it made whole, to the planner.
void Arbiter::State::push(const Ref& ref) {
  Set& set = *ref.entry->set;
  const auto planned = [this](const Ref& each) {
    Occurrence& occurrence = each.entry->at(each.occurrence);
    occurrence.stage = Stage::kReady;
    return PlannedTensor{each.entry->id, each.occurrence, bytes_of(metadata_of(*each.entry, occurrence))};
  };
  const Occurrence& first = ref.entry->at(ref.occurrence);
  const auto key_of = [this](const Ref& each) {
    const Occurrence& occurrence = each.entry->at(each.occurrence);
    return FuseKey(metadata_of(*each.entry, occurrence), occurrence.absent, common_memory(occurrence));
  };
  if (first.group == nullptr) return set.planner.push(key_of(ref), planned(ref));
  std::vector<FuseKey> keys;
  std::vector<PlannedTensor> tensors;
  for (const Ref& each : first.group->members) {
    keys.push_back(key_of(each));
    tensors.push_back(planned(each));
  }
  // From here on the group is counted down by batches, and released with the last.
  first.group->not_issued = tensors.size();
  set.planner.push_group(keys, tensors);
}

/// Only rank 0 selects, and the choice travels in the verdict: the ranks then agree on the algorithm even if their
/// settings or their versions of the table differ.
Result<AlgorithmChoice> Arbiter::State::choose(Set& set, std::span<const PlannedTensor> tensors) {
  Entry& entry = *by_id.find(tensors.front().id);
  const Metadata& metadata = metadata_of(entry, entry.at(tensors.front().occurrence));
  BatchShape shape;
  shape.kind = metadata.kind;
  shape.dtype = metadata.dtype;
  shape.op = metadata.op;
  shape.codec = metadata.codec;
  shape.device = metadata.device;
  for (const PlannedTensor& tensor : tensors) shape.bytes += tensor.bytes;
  shape.tensors = tensors.size();
  // Part of `FuseKey`, so the same for all tensors.
  shape.shared = common_memory(entry.at(tensors.front().occurrence)) == MemoryKind::kShared;
  shape.ranks = static_cast<int>(set.members.ranks.size());
  shape.one_host = set.members.one_host;
  // Sizes of the hosts tell the selector whether two levels pay: few ranks on many hosts, or many on few.
  const std::vector<int>& hosts = set.members.hosts;
  shape.hosts = std::max(1, static_cast<int>(hosts.size()));
  shape.largest_host = hosts.empty() ? shape.ranks : *std::max_element(hosts.begin(), hosts.end());
  shape.slot_bytes = config.slot_bytes;
  shape.deterministic = config.deterministic;
  shape.set = set.members.id;
  shape.absent = entry.at(tensors.front().occurrence).absent;
  return config.select(shape);
}

/// Chooses the algorithms of the next cut. If one batch has none, all of the cut fails before any of it has left: a
/// group runs whole or not at all. Several pieces wait in `set.cut`, so that each takes a credit of its own.
void Arbiter::State::cut_next(Set& set) {
  set.planner.next(cut);
  std::vector<Piece> pieces;
  size_t begin = 0;
  for (const size_t end : cut.ends) {
    const std::span<const PlannedTensor> tensors(cut.tensors.data() + begin, end - begin);
    Result<AlgorithmChoice> choice = choose(set, tensors);
    if (!choice.ok()) {
      const Status why(Code::kInvalidArgument, choice.status().sentence());
      for (const PlannedTensor& tensor : cut.tensors) {
        const Ref ref{by_id.find(tensor.id), tensor.occurrence};
        // A failure takes the whole group with it, so later tensors of the cut may have failed or settled already.
        if (ref.occurrence >= ref.entry->base && ref.entry->at(ref.occurrence).stage == Stage::kReady) fail(ref, why);
      }
      return;
    }
    if (cut.ends.size() == 1) return issue(set, tensors, choice.value());
    pieces.push_back({{tensors.begin(), tensors.end()}, choice.value()});
    begin = end;
  }
  for (const PlannedTensor& tensor : cut.tensors) by_id.find(tensor.id)->at(tensor.occurrence).stage = Stage::kCut;
  for (Piece& piece : pieces) set.cut.push_back(std::move(piece));
}

/// Writes one batch verdict. Definitions and ids come first because `define` and `announce` use the scratch record too.
/// Each operation is settled right after its reference was taken, because a reference counts from the oldest occurrence
/// without a verdict, and participants move that point operation by operation too.
void Arbiter::State::issue(Set& set, std::span<const PlannedTensor> tensors, const AlgorithmChoice& choice) {
  batched.clear();
  for (const PlannedTensor& tensor : tensors) {
    Entry& entry = *batched.emplace_back(by_id.find(tensor.id));
    Occurrence& occurrence = entry.at(tensor.occurrence);
    // The first batch with this metadata. From now on its number stands for it, here and in proposals.
    if (occurrence.number == kNoMetadata) occurrence.number = define(set, *occurrence.own);
    if (occurrence.elsewhere != nullptr) static_cast<void>(define(set, *occurrence.elsewhere));
    announce(entry, occurrence.number);
  }
  // One record: where and when it runs, with which algorithm, the metadata, the operations, and then their extents.
  WireWriter extents;
  operations.clear();
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kBatch));
  record.varint(set.members.id);
  record.varint(std::exchange(next_stamp, next_stamp + choice.stamps));
  put_choice(record, choice);
  Entry& first = *batched.front();
  const Occurrence& lead = first.at(tensors.front().occurrence);
  const bool on_device = metadata_of(first, lead).device >= 0;
  // The number of absent members is part of `FuseKey`, so it is the same for all operations of a batch.
  const bool from_all = lead.absent == 0;
  record.varint(from_all ? 0 : set.members.ranks.size() - lead.absent);
  record.varint(lead.number == kNoMetadata ? 0 : uint64_t{lead.number} + 1);
  if (lead.number == kNoMetadata) put_metadata(record, *lead.own);
  for (size_t i = 0; i < tensors.size(); ++i) {
    Entry& entry = *batched[i];
    operations.push_back(reference({&entry, tensors[i].occurrence}));
    Occurrence& occurrence = entry.at(tensors[i].occurrence);
    if (!from_all) put_extent(extents, metadata_of(entry, occurrence));
    if (occurrence.group != nullptr && --occurrence.group->not_issued == 0) release(*occurrence.group);
    occurrence.stage = Stage::kSettled;
    settle(entry);
  }
  put_operations(record, operations);
  record.raw(extents.view());
  tell(set, operations.size(), Expected::kYes);
  ++set.issued;
  set.on_device = on_device;
}

/// Issues one batch: the next piece of a group that was cut, or the next cut. A cut that fails issues none.
void Arbiter::State::issue_next(Set& set) {
  if (set.cut.empty()) cut_next(set);
  if (set.cut.empty()) return;
  const Piece piece = std::move(set.cut.front());
  set.cut.pop_front();
  issue(set, piece.tensors, piece.choice);
}

/// A goodbye has its position in the order of verdicts: what was agreed before it runs everywhere, and what needs the
/// rank afterwards fails everywhere. The sets of the leaver end; with rank 0 all of them end.
void Arbiter::State::leave(int rank) {
  Rank& leaver = ranks[static_cast<size_t>(rank)];
  if (leaver.left) return;
  leaver.left = true;
  if (!ended) {
    ended = rank == 0;
    for (auto& [id, set] : sets) {
      if (ended || set.index[static_cast<size_t>(rank)] >= 0) end_set(set);
    }
    drop_ended_from_rest();
    drop_makings_with(rank);
  }
  // Also after rank 0's own goodbye: a rank that closes its connections now must not be taken for dead.
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kGoodbye));
  record.varint(static_cast<uint64_t>(rank));
  if (config.relayed) return address(0, 0);
  for (Rank& each : ranks) {
    each.frames.reserve(record.size(), 0).raw(record.view());
    each.rings = true;
  }
}

}  // namespace rueda::core
