#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/diagnosis/op_record.h"

namespace rueda::core {

/// The last operations of a rank, in memory that is taken once. A new one takes the place of the oldest that is over;
/// only where all places are held by operations in flight does it take that of the oldest of these. Any thread.
class FlightRecorder {
 public:
  /// Names a record; one that has lost its place is no longer found.
  using Id = uint64_t;
  static constexpr size_t kCapacity = 1024;

  explicit FlightRecorder(size_t capacity = kCapacity);

  Id begin(const OpFacts& facts, SteadyClock::time_point now) RUEDA_EXCLUDES(mutex_);
  /// Applies `change(OpRecord&, element)` to the records of those elements of `range` that still have one.
  template <typename Range, typename IdOf, typename Change>
  void update(const Range& range, IdOf&& id_of, Change&& change) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const auto& element : range) {
      const Id id = id_of(element);
      OpRecord& record = places_[id % places_.size()];
      if (record.number == id / places_.size()) change(record, element);
    }
  }
  /// What is remembered, in the order of enqueueing.
  std::vector<OpRecord> records() const RUEDA_EXCLUDES(mutex_);
  /// Of the operations that run the one that began first, and how many more its batch has; nothing where none runs.
  struct Running {
    OpRecord first;
    size_t more = 0;
  };
  std::optional<Running> longest_running() const RUEDA_EXCLUDES(mutex_);
  size_t capacity() const { return places_.size(); }
  size_t bytes() const { return places_.size() * sizeof(OpRecord); }

 private:
  size_t free_place() RUEDA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<OpRecord> places_;  ///< elements under mutex_; the vector itself never changes
  uint64_t begun_ RUEDA_GUARDED_BY(mutex_) = 0;
  size_t next_ RUEDA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rueda::core
