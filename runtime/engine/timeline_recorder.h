#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "runtime/diagnosis/timeline_record.h"
#include "runtime/engine/lane.h"

namespace rueda::core {

/// What this rank has recorded for a timeline and no thread has taken yet, and which recorded batches have not ended.
/// Pure memory: it knows neither files nor frames. Any thread adds to it, one at a time: `Timeline` owns it and guards
/// it with its mutex.
class TimelineRecorder {
 public:
  /// A piece of records leaves when it is this long, or a second old.
  static constexpr size_t kPieceBytes = 64 << 10;
  /// What is kept while no thread takes it, and while the disk is slow. Records beyond are counted and dropped.
  static constexpr size_t kMostBytes = 8 << 20;

  /// A recording begins: sets are named anew, and batches agreed before it do not belong to it.
  void begin();
  /// Marks the rounds of agreement from now on, or no longer.
  void mark_rounds(bool wanted) { mark_rounds_ = wanted; }
  /// Drops what is there, also the count of lost records.
  void clear();
  /// A batch was agreed: its tensors' negotiations are recorded, and its end belongs to the recording.
  void agreed(const Batch& batch);
  /// A batch has ended.
  void ended(const BatchRecord& record);
  /// The batch ends now. Returns whether it was agreed in this recording.
  bool close(const Batch& batch) { return open_.erase({batch.set, batch.number}) != 0; }
  /// Whether every batch that was agreed in this recording has ended.
  bool all_closed() const { return open_.empty(); }
  /// So many records could not be kept elsewhere.
  void lose(uint64_t records) { lost_ += records; }
  bool full() const { return records_.size() >= kPieceBytes; }
  size_t bytes() const { return records_.size(); }
  /// Hands out all records, as timeline_record.h puts them.
  std::vector<std::byte> take() { return records_.take(); }

 private:
  bool has_room(uint64_t records);

  WireWriter records_;
  std::set<SetId> named_sets_;                 ///< in this recording
  std::set<std::pair<SetId, uint64_t>> open_;  ///< batches that have not ended: set and number
  uint64_t lost_ = 0;
  bool mark_rounds_ = false;
};

/// Bytes that a tensor brings into an operation.
uint64_t tensor_bytes(const TensorPart& tensor);

}  // namespace rueda::core
