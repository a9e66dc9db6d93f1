#include "runtime/diagnosis/flight_recorder.h"

#include <algorithm>
#include <cstring>

namespace rueda::core {

const char* name_of(OpState state) {
  constexpr std::array<const char*, kOpStates> kNames = {"enqueued", "proposed", "agreed",
                                                         "started",  "finished", "failed"};
  return kNames[static_cast<size_t>(state)];
}

FlightRecorder::FlightRecorder(size_t capacity) : places_(std::max<size_t>(capacity, 1)) {}

size_t FlightRecorder::free_place() {
  const size_t first = next_;
  do {
    const size_t place = std::exchange(next_, (next_ + 1) % places_.size());
    if (places_[place].number == 0 || places_[place].over()) return place;
  } while (next_ != first);
  return std::exchange(next_, (next_ + 1) % places_.size());
}

FlightRecorder::Id FlightRecorder::begin(const OpFacts& facts, SteadyClock::time_point now) {
  MutexLock lock(mutex_);
  const size_t place = free_place();
  OpRecord& record = places_[place];
  record = OpRecord{};
  record.number = ++begun_;
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
  return record.number * places_.size() + place;
}

std::vector<OpRecord> FlightRecorder::records() const {
  std::vector<OpRecord> found;
  found.reserve(places_.size());
  {
    MutexLock lock(mutex_);
    for (const OpRecord& record : places_) {
      if (record.number != 0) found.push_back(record);
    }
  }
  std::sort(found.begin(), found.end(), [](const OpRecord& a, const OpRecord& b) { return a.number < b.number; });
  return found;
}

std::optional<FlightRecorder::Running> FlightRecorder::longest_running() const {
  constexpr auto kStarted = static_cast<size_t>(OpState::kStarted);
  std::optional<Running> found;
  MutexLock lock(mutex_);
  for (const OpRecord& record : places_) {
    if (record.number == 0 || record.state != OpState::kStarted) continue;
    if (found && found->first.set == record.set && found->first.batch == record.batch) {
      ++found->more;
    } else if (!found || record.when[kStarted] < found->first.when[kStarted]) {
      found = Running{record, 0};
    }
  }
  return found;
}

}  // namespace rueda::core
