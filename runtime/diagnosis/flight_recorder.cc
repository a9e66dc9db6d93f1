#include "runtime/diagnosis/flight_recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::core {

const char* name_of(OpState state) {
  constexpr std::array<const char*, kOpStates> kNames = {"enqueued", "proposed", "agreed",
                                                         "started",  "finished", "failed"};
  return kNames[static_cast<size_t>(state)];
}

FlightRecorder::FlightRecorder(size_t capacity) : places_(std::max<size_t>(capacity, 1)) {}

/// There is one.
size_t FlightRecorder::free_place() {
  for (;;) {
    const size_t place = std::exchange(next_, (next_ + 1) % places_.size());
    if (places_[place].number == 0 || places_[place].over()) return place;
  }
}

/// Ids say the number and the place; the one behind the last stands for memory of its own.
OpRecord* FlightRecorder::find(Id id) {
  const uint64_t number = id / (places_.size() + 1);
  const size_t place = id % (places_.size() + 1);
  if (place < places_.size()) return places_[place].number == number ? &places_[place] : nullptr;
  const auto found = more_.find(number);
  return found == more_.end() ? nullptr : &found->second;
}

/// A record with memory of its own takes a place, as the last operations have it, where one is free.
void FlightRecorder::note_over(OpRecord& record) {
  const auto found = more_.find(record.number);
  if (found == more_.end()) {
    --held_;
    return;
  }
  if (held_ < places_.size()) places_[free_place()] = record;
  more_.erase(found);
}

template <typename Visit>
void FlightRecorder::visit(Visit&& one) const {
  for (const OpRecord& record : places_) {
    if (record.number != 0) one(record);
  }
  for (const auto& [number, record] : more_) one(record);
}

size_t FlightRecorder::bytes() const {
  MutexLock lock(mutex_);
  return (places_.size() + more_.size()) * sizeof(OpRecord);
}

FlightRecorder::Id FlightRecorder::begin(const OpFacts& facts, SteadyClock::time_point now) {
  MutexLock lock(mutex_);
  const uint64_t number = ++begun_;
  const bool full = held_ == places_.size();
  const size_t place = full ? places_.size() : free_place();
  OpRecord& record = full ? more_[number] : places_[place];
  record = OpRecord{};
  record.number = number;
  if (!full) ++held_;
  record.set = facts.set;
  record.kind = facts.kind;
  record.dtype = facts.dtype;
  record.count = facts.count;
  record.bytes = facts.bytes;
  const std::string_view name =
      facts.name.substr(facts.name.size() - std::min(facts.name.size(), OpRecord::kNameBytes));
  record.name_bytes = static_cast<uint8_t>(name.size());
  std::memcpy(record.name_text.data(), name.data(), name.size());
  record.reach(OpState::kEnqueued, now);
  return number * (places_.size() + 1) + place;
}

std::vector<OpRecord> FlightRecorder::records() const {
  std::vector<OpRecord> found;
  found.reserve(places_.size());
  {
    MutexLock lock(mutex_);
    visit([&found](const OpRecord& record) { found.push_back(record); });
  }
  std::sort(found.begin(), found.end(), [](const OpRecord& a, const OpRecord& b) { return a.number < b.number; });
  return found;
}

std::optional<FlightRecorder::Running> FlightRecorder::longest_running() const {
  constexpr auto kStarted = static_cast<size_t>(OpState::kStarted);
  std::optional<Running> found;
  MutexLock lock(mutex_);
  visit([&found](const OpRecord& record) {
    if (record.state != OpState::kStarted) return;
    if (found && found->first.set == record.set && found->first.batch == record.batch) {
      ++found->more;
    } else if (!found || record.when[kStarted] < found->first.when[kStarted]) {
      found = Running{record, 0};
    }
  });
  return found;
}

}  // namespace rueda::core
