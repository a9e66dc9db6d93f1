// The flight recorder: a ring of slots, allocated once. A new operation overwrites the oldest that is over. One that is
// in flight is never overwritten, since those are what a dump is for; if operations in flight fill the ring, a new one
// gets a map entry until it is over.
//
//   slots    [ over | in flight | over | over | in flight ]      more_   { number: in flight }
//                                 ▲ next_
//
// An id is the number of the operation, and in its last bits that of the slot. The slot finds the record without a
// search, and the number shows whether it is still the same operation's. Bits, because each operation asks four times,
// and a division takes longer than all the rest of the question.
#include "runtime/diagnosis/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rueda::core {

const char* name_of(OpState state) {
  constexpr std::array<const char*, kOpStates> kNames = {"enqueued", "proposed", "agreed", "started",
                                                         "launched", "finished", "failed"};
  return kNames[static_cast<size_t>(state)];
}

FlightRecorder::FlightRecorder(size_t capacity)
    : slots_(std::max<size_t>(capacity, 1)), slot_bits_(static_cast<int>(std::bit_width(slots_.size()))) {}

/// Returns a slot that is free or whose operation is over. The caller has checked that there is one.
size_t FlightRecorder::free_slot() {
  for (;;) {
    const size_t slot = next_;
    next_ = slot + 1 < slots_.size() ? slot + 1 : 0;
    if (slots_[slot].number == 0 || slots_[slot].over()) return slot;
  }
}

/// Returns the record, or null if its slot was given to another operation. A slot number one past the last stands for
/// the map.
OpRecord* FlightRecorder::find(Id id) {
  const uint64_t number = id >> slot_bits_;
  const size_t slot = id & ((uint64_t{1} << slot_bits_) - 1);
  if (slot < slots_.size()) return slots_[slot].number == number ? &slots_[slot] : nullptr;
  const auto found = more_.find(number);
  return found == more_.end() ? nullptr : &found->second;
}

/// An operation is over. A record of the map moves into a slot if one is free, so that it is remembered like any other.
void FlightRecorder::note_over(OpRecord& record) {
  const auto found = more_.find(record.number);
  if (found == more_.end()) {
    --held_;
    return;
  }
  if (held_ < slots_.size()) slots_[free_slot()] = record;
  more_.erase(found);
}

template <typename Visit>
void FlightRecorder::visit(Visit&& one) const {
  for (const OpRecord& record : slots_) {
    if (record.number != 0) one(record);
  }
  for (const auto& [number, record] : more_) one(record);
}

size_t FlightRecorder::bytes() const {
  MutexLock lock(mutex_);
  return (slots_.size() + more_.size()) * sizeof(OpRecord);
}

FlightRecorder::Id FlightRecorder::begin(const OpFacts& facts, SteadyClock::time_point now) {
  MutexLock lock(mutex_);
  const uint64_t number = ++begun_;
  const bool full = held_ == slots_.size();
  const size_t slot = full ? slots_.size() : free_slot();
  OpRecord& record = full ? more_[number] : slots_[slot];
  record.number = number;
  if (!full) ++held_;
  record.error = Code::kOk;
  record.algorithm = 0;
  record.batch = OpRecord::kNoBatch;
  record.when = {};
  record.set = facts.set;
  record.kind = facts.kind;
  record.dtype = facts.dtype;
  record.count = facts.count;
  record.bytes = facts.bytes;
  // The end of a long name: "...layer.17.weight" tells tensors apart, the beginning does not.
  const std::string_view name =
      facts.name.substr(facts.name.size() - std::min(facts.name.size(), OpRecord::kNameBytes));
  record.name_bytes = static_cast<uint8_t>(name.size());
  std::memcpy(record.name_text.data(), name.data(), name.size());
  record.reach(OpState::kEnqueued, now);
  return number << slot_bits_ | slot;
}

std::vector<OpRecord> FlightRecorder::records() const {
  std::vector<OpRecord> found;
  found.reserve(slots_.size());
  {
    MutexLock lock(mutex_);
    visit([&found](const OpRecord& record) { found.push_back(record); });
  }
  // Outside the lock: enqueueing threads must not wait for a sort.
  std::sort(found.begin(), found.end(), [](const OpRecord& a, const OpRecord& b) { return a.number < b.number; });
  return found;
}

std::optional<FlightRecorder::Running> FlightRecorder::longest_running() const {
  constexpr auto kStarted = static_cast<size_t>(OpState::kStarted);
  std::optional<Running> found;
  MutexLock lock(mutex_);
  visit([&found](const OpRecord& record) {
    if (record.state != OpState::kStarted && record.state != OpState::kLaunched) return;
    if (found && found->first.set == record.set && found->first.batch == record.batch) {
      ++found->more;
    } else if (!found || record.when[kStarted] < found->first.when[kStarted]) {
      found = Running{record, 0};
    }
  });
  return found;
}

}  // namespace rueda::core
