// Starts and stops the timeline of a job, and takes the events of this rank.
//
// One mutex joins the recorder, the protocol and the scribe, because each event changes several of them at once: a full
// piece, say, leaves the recorder for the scribe's queue, or becomes a wish of the protocol. Nothing blocks under it
// but `start`, which opens a file, and the waits in `stop`, which let go of it.
//
// The recording's end is the delicate part. Batches that were agreed while it was on may still run, so `stop` goes
// through a phase in which nothing new is recorded but ends are (`draining_`), on every rank, before last pieces leave.
#include "runtime/engine/timeline.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/diagnosis/dump_file.h"
#include "runtime/engine/device_times.h"

namespace rueda::core {
namespace {

/// How long a disk may take to close the file, however long other ranks took before.
constexpr std::chrono::seconds kCloses{1};

/// As RUEDA_TIMELINE is documented: a file for each rank.
bool has_rank_in(const std::string& path) { return path.find("{rank}") != std::string::npos; }

std::vector<TimelineWriter::Rank> ranks_of(const EpochPlan& plan) {
  std::vector<TimelineWriter::Rank> ranks;
  for (const Endpoint& endpoint : plan.ranks) {
    ranks.push_back({endpoint.host, endpoint.pid, plan.worker_of(static_cast<int>(ranks.size())), plan.elastic.number});
  }
  return ranks;
}

}  // namespace

/// No thread and no memory to speak of until a recording begins.
Timeline::Timeline(const EpochPlan& plan, bool shares_clock, std::function<const char*(uint8_t)> algorithm_name,
                   std::function<void()> ring)
    : plan_(plan),
      algorithm_name_(std::move(algorithm_name)),
      ring_(std::move(ring)),
      protocol_(plan.size, shares_clock),
      scribe_(plan.rank) {}

Status Timeline::start(const std::string& path, bool mark_rounds) {
  // A job of one rank has no others to record, so it writes for itself in either form.
  const bool own = has_rank_in(path) || plan_.size == 1;
  if (!own && plan_.rank != 0) return {};
  MutexLock lock(mutex_);
  if (writes()) {
    return {Code::kInvalidArgument,
            fmt::format("rank {}: a timeline is being written already, to {}", plan_.rank, path_)};
  }
  const std::string file = has_rank_in(path) ? dump_path(path, plan_.rank) : path;
  RUEDA_RETURN_IF_ERROR(scribe_.open(file, ranks_of(plan_)));
  path_ = file;
  for_all_ = !own;
  protocol_.await_all();
  recorder_.mark_rounds(mark_rounds);
  recorder_.begin();
  protocol_.begin_asking();
  if (for_all_) protocol_.want_switch(TimelineSwitch{true, mark_rounds});
  on_.store(true);  // last: another thread may record from here on
  look_due();
  return {};
}

/// A second `stop` meanwhile returns at once: the first one reports how the file ended.
Status Timeline::stop(Deadline deadline) {
  std::shared_ptr<TimelineScribe::File> file;
  {
    MutexLock lock(mutex_);
    if (!writes() || stopping_) return {};
    stopping_ = true;
    on_.store(false);
    draining_.store(!recorder_.all_closed());
    if (for_all_) protocol_.want_switch(TimelineSwitch{});
    look_due();
    // Own batches end by themselves; other ranks answer with a last piece, or say goodbye, or the epoch ends.
    const auto waits = [this]() RUEDA_REQUIRES(mutex_) { return draining_ || (for_all_ && !protocol_.all_ended()); };
    while (waits() && !alone_ && !deadline.passed()) {
      changed_.wait_for(mutex_, deadline.left(std::chrono::seconds(1)));
    }
    // At the deadline some batches may still run: their ends are not recorded any more.
    draining_.store(false);
    flush();
    file = scribe_.close();
  }
  // Without the mutex: lanes' threads take it, and must not wait for a disk.
  Status closed = TimelineScribe::await_closed(*file, deadline.later(Deadline::after(kCloses)));
  MutexLock lock(mutex_);
  if (closed.code() == Code::kTimeout) {
    closed = {Code::kTimeout,
              fmt::format("rank {}: the timeline {} is not closed yet: its disk takes too long", plan_.rank, path_)};
  }
  path_.clear();
  stopping_ = false;
  return closed;
}

void Timeline::leave(Deadline deadline) {
  if (const Status stopped = stop(deadline); !stopped.ok()) log(LogLevel::kWarning, "{}", stopped.sentence());
  MutexLock lock(mutex_);
  // Still on, or draining, only if rank 0 has this rank record: then rank 0 waits for its last piece.
  if (!on_.exchange(false) && !draining_) return;
  draining_.store(false);
  protocol_.want_last_piece();
  look_due();
}

/// Own batches are not waited for either: lanes fail them now.
void Timeline::abandon_others() {
  MutexLock lock(mutex_);
  alone_ = true;
  changed_.notify_all();
}

/// Asks for the time as well: clocks drift, and an old answer loses its weight.
void Timeline::tick() {
  if (!on()) return;
  MutexLock lock(mutex_);
  protocol_.want_time();
  flush();
  look_due();
}

/// Whether a turn has something to send; rings for one if it has.
void Timeline::look_due() {
  const bool due = protocol_.due();
  due_.store(due);
  if (due) ring_();
}

void Timeline::agreed(const Batch& batch) {
  MutexLock lock(mutex_);
  if (!follows()) return;  // switched off since the caller looked
  recorder_.agreed(batch);
  look_full();
}

/// Reports that the last batch that began has ended; rank 0, or the `stop` of this rank, waits for it.
void Timeline::look_drained() {
  if (!draining_ || !recorder_.all_closed()) return;
  draining_.store(false);
  if (!writes()) {
    protocol_.want_last_piece();
    look_due();
  }
  changed_.notify_all();
}

/// A failed batch has no end worth showing, but it must not keep the recording open.
void Timeline::failed(const Batch& batch) {
  if (!follows()) return;
  MutexLock lock(mutex_);
  static_cast<void>(recorder_.close(batch));
  look_drained();
}

void Timeline::finished(const Batch& batch, SteadyClock::time_point now) {
  // One load while nothing is recorded. The record is put together without the mutex.
  if (!follows()) return;
  BatchRecord record;
  record.set = batch.set;
  record.number = batch.number;
  record.algorithm = algorithm_name_(batch.call.choice.algorithm);
  record.kind = batch.call.kind;
  if (!batch.tensors.empty()) record.first = batch.tensors.front()->request.name;
  record.tensors = batch.tensors.size();
  for (const TensorPart* tensor : batch.tensors) record.bytes += tensor_bytes(*tensor);
  record.agreed = batch.agreed;
  record.begun = batch.begun;
  record.ended = now;
  if (batch.call.phases != nullptr) record.phases = batch.phases.extents();
  if (batch.device != nullptr && batch.device->times != nullptr) record.device = batch.device->times->extents();
  MutexLock lock(mutex_);
  // A batch that began before the recording is recorded as well, but only while it is on.
  const bool wanted = recorder_.close(batch) || on();
  if (wanted && follows()) {
    recorder_.ended(record);
    look_full();
  }
  look_drained();
}

void Timeline::look_full() {
  if (!recorder_.full()) return;
  if (writes()) return flush();
  if (protocol_.piece_wanted()) return;  // it takes these as well
  protocol_.want_piece();
  look_due();
}

/// What was recorded so far leaves for the file, or with the next turn.
void Timeline::flush() {
  if (recorder_.bytes() == 0) return;
  if (writes()) return write(plan_.rank, recorder_.take(), protocol_.shift());
  protocol_.want_piece();
}

/// Both sides of the piece's way: records that wait here, and those that wait for the disk.
size_t Timeline::held() {
  MutexLock lock(mutex_);
  return recorder_.bytes() + scribe_.queued();
}

void Timeline::write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift) {
  if (!scribe_.write(rank, std::move(records), shift)) recorder_.lose(1);  // counts a piece of many records as one
}

/// The takers below clear what they take, and recompute whether a turn still has something to send.
std::optional<TimelineSwitch> Timeline::take_switch() {
  MutexLock lock(mutex_);
  const auto taken = protocol_.take_switch();
  due_.store(protocol_.due());
  return taken;
}

/// The time of asking is read here, with the frame about to leave.
std::optional<SteadyClock::time_point> Timeline::take_clock_ask() {
  MutexLock lock(mutex_);
  if (!protocol_.take_time_wanted()) return std::nullopt;
  due_.store(protocol_.due());
  return SteadyClock::now();
}

std::optional<TimelinePiece> Timeline::take_piece() {
  MutexLock lock(mutex_);
  std::optional<TimelinePiece> piece = protocol_.take_piece();
  // Not `due()`: a piece that waits for rank 0's time is due again when the answer comes.
  due_.store(protocol_.time_wanted());
  if (!piece || writes()) return piece;  // what this rank writes itself does not travel
  piece->full = recorder_.full() && !piece->last;
  piece->records = recorder_.take();
  return piece;
}

/// Switched on anew before it was switched off, it begins anew: rank 0 writes another file then.
void Timeline::switched(const TimelineSwitch& frame) {
  MutexLock lock(mutex_);
  if (writes()) {  // it records for itself, and rank 0 need not wait for it
    if (!frame.record) protocol_.want_last_piece();
    return look_due();
  }
  recorder_.mark_rounds(frame.mark_rounds);
  draining_.store(!frame.record && !recorder_.all_closed());
  if (frame.record) {
    recorder_.clear();
    recorder_.begin();
    protocol_.begin_asking();
  } else if (recorder_.all_closed()) {
    protocol_.want_last_piece();
  }
  on_.store(frame.record);
  look_due();
}

void Timeline::clock_answered(const ClockAnswer& answer) {
  MutexLock lock(mutex_);
  protocol_.time_told(answer, SteadyClock::now());
  // A piece that waited for the time can leave now, or the next question.
  if (protocol_.due()) look_due();
}

/// Rank 0 writes other ranks' pieces as they come, each with the shift of its rank's clock at that time.
void Timeline::received(int rank, TimelinePiece piece) {
  MutexLock lock(mutex_);
  if (!writes()) return;  // the recording has ended without it
  if (!piece.records.empty()) write(rank, std::move(piece.records), piece.shift);
  if (!piece.last) return;
  protocol_.ended(rank);
  changed_.notify_all();
}

/// A rank may leave in the middle of a recording: its last piece has come before its goodbye.
void Timeline::left(int rank) {
  MutexLock lock(mutex_);
  protocol_.left(rank);
  changed_.notify_all();
}

}  // namespace rueda::core
