#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/fast_mutex.h"
#include "runtime/diagnosis/op_record.h"

namespace rueda::core {

/// The last operations of a rank, in slots that are allocated once. A new operation takes the slot of the oldest that
/// is over. If operations in flight hold all slots, it has memory of its own until it is over. Any thread.
class FlightRecorder {
 public:
  /// Names a record. A record that is over is no longer found once its slot was given to another operation.
  using Id = uint64_t;
  static constexpr size_t kCapacity = 1024;

  explicit FlightRecorder(size_t capacity = kCapacity);

  Id begin(const OpFacts& facts, SteadyClock::time_point now) RUEDA_EXCLUDES(mutex_);
  /// Applies `change(OpRecord&, element)` to the records of those elements of `range` that still have one, and then
  /// calls `count()` under the same lock, so that sums which change with records have one writer at a time.
  template <typename Range, typename IdOf, typename Change, typename Count>
  void update(const Range& range, IdOf&& id_of, Change&& change, Count&& count) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const auto& element : range) {
      OpRecord* const record = find(id_of(element));
      if (record == nullptr) continue;
      const bool was_over = record->over();
      change(*record, element);
      if (was_over && !record->over()) ++held_;  // failed with its epoch while its batch was about to begin
      if (!was_over && record->over()) note_over(*record);
    }
    count();
  }
  template <typename Range, typename IdOf, typename Change>
  void update(const Range& range, IdOf&& id_of, Change&& change) RUEDA_EXCLUDES(mutex_) {
    update(range, std::forward<IdOf>(id_of), std::forward<Change>(change), [] {});
  }
  /// Returns copies of all records, in the order of enqueueing.
  std::vector<OpRecord> records() const RUEDA_EXCLUDES(mutex_);
  /// Returns the running operation that began first, and how many more its batch has; nothing if none runs.
  struct Running {
    OpRecord first;
    size_t more = 0;
  };
  std::optional<Running> longest_running() const RUEDA_EXCLUDES(mutex_);
  size_t capacity() const { return slots_.size(); }
  size_t bytes() const RUEDA_EXCLUDES(mutex_);

 private:
  size_t free_slot() RUEDA_REQUIRES(mutex_);
  OpRecord* find(Id id) RUEDA_REQUIRES(mutex_);
  void note_over(OpRecord& record) RUEDA_REQUIRES(mutex_);
  template <typename Visit>
  void visit(Visit&& one) const RUEDA_REQUIRES(mutex_);

  mutable FastMutex mutex_;
  std::vector<OpRecord> slots_;  ///< elements under mutex_; the vector itself never changes
  const int slot_bits_;          ///< of an id: room for the number of a slot, and one more
  std::unordered_map<uint64_t, OpRecord> more_ RUEDA_GUARDED_BY(mutex_);  ///< in flight, by number
  size_t held_ RUEDA_GUARDED_BY(mutex_) = 0;                              ///< slots whose operations are in flight
  uint64_t begun_ RUEDA_GUARDED_BY(mutex_) = 0;
  size_t next_ RUEDA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rueda::core
