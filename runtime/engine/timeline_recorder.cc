// Records are bytes from the start: what is kept here is what travels in a frame and what the writer reads, so a piece
// leaves without a pass over it. A full memory drops the newest records and not the oldest, because the oldest may be
// on their way; the count of the dropped ones goes in front of the next record that fits.
#include "runtime/engine/timeline_recorder.h"

#include <utility>

#include "runtime/engine/teams.h"

namespace rueda::core {

uint64_t tensor_bytes(const TensorPart& tensor) {
  return static_cast<uint64_t>(tensor.slice.count) * size_of(tensor.request.metadata.dtype);
}

void TimelineRecorder::begin() {
  named_sets_.clear();
  open_.clear();
}

void TimelineRecorder::clear() {
  records_.clear();
  lost_ = 0;
}

void TimelineRecorder::agreed(const Batch& batch) {
  if (!has_room(batch.tensors.size())) return;
  if (mark_rounds_) put(records_, RoundRecord{batch.agreed});
  // A file names the tracks of a set by its first record, so the name goes before it, once.
  if (!batch.team->of.empty() && named_sets_.insert(batch.set).second) {
    put(records_, SetRecord{batch.set, batch.team->of});
  }
  for (const TensorPart* tensor : batch.tensors) {
    const Request& request = tensor->request;
    put(records_, NegotiatedRecord{request.name, request.metadata.kind, batch.set, tensor_bytes(*tensor), batch.number,
                                   tensor->operation->submitted, batch.agreed});
  }
  open_.emplace(batch.set, batch.number);
}

void TimelineRecorder::ended(const BatchRecord& record) {
  if (has_room(1)) put(records_, record);
}

/// Whether there is room for these records; what was lost before is told first.
bool TimelineRecorder::has_room(uint64_t records) {
  if (records_.size() > kMostBytes) {
    lost_ += records;
    return false;
  }
  records_.reserve(kPieceBytes + kPieceBytes / 4);  // does nothing until a piece is taken
  if (lost_ != 0) put(records_, LostRecord{std::exchange(lost_, 0), SteadyClock::now()});
  return true;
}

}  // namespace rueda::core
