#include "runtime/engine/timeline.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/diagnosis/dump_file.h"
#include "runtime/engine/teams.h"

namespace rueda::core {
namespace {

/// A piece leaves when it is this long, or a second old.
constexpr size_t kTimelinePieceBytes = 64 << 10;
/// What a rank keeps while nobody takes it, and rank 0 while its disk is slow; beyond, records are counted and dropped.
constexpr size_t kMostRecordBytes = 8 << 20;
constexpr int kWorkerNiceness = 19;
/// What a disk has to close the file, however long other ranks took before, and then to let its thread go.
constexpr std::chrono::seconds kCloses{1};
constexpr std::chrono::milliseconds kLetsGo{100};
/// Questions at the start, of which the quickest answer counts.
constexpr int kFirstAsks = 8;

bool has_rank_in(const std::string& path) { return path.find("{rank}") != std::string::npos; }

uint64_t tensor_bytes(const TensorPart& tensor) {
  return static_cast<uint64_t>(tensor.slice.count) * size_of(tensor.request.metadata.dtype);
}

std::vector<TimelineWriter::Rank> ranks_of(const EpochPlan& plan) {
  std::vector<TimelineWriter::Rank> ranks;
  for (const Endpoint& endpoint : plan.ranks) ranks.push_back({endpoint.host, endpoint.pid});
  return ranks;
}

}  // namespace

Timeline::Timeline(const EpochPlan& plan, bool shares_clock, std::function<const char*(uint8_t)> algorithm_name,
                   std::function<void()> ring)
    : plan_(plan),
      shares_clock_(shares_clock),
      algorithm_name_(std::move(algorithm_name)),
      ring_(std::move(ring)),
      ended_(static_cast<size_t>(plan.size)),
      left_(ended_) {}

Status Timeline::start(const std::string& path, bool mark_rounds) {
  const bool own = has_rank_in(path) || plan_.size == 1;
  if (!own && plan_.rank != 0) return {};
  MutexLock lock(mutex_);
  if (!path_.empty()) {
    return {Code::kInvalidArgument,
            fmt::format("rank {}: a timeline is being written already, to {}", plan_.rank, path_)};
  }
  const std::string file = has_rank_in(path) ? dump_path(path, plan_.rank) : path;
  Result<std::unique_ptr<TimelineWriter>> writer = TimelineWriter::open(file, ranks_of(plan_));
  if (!writer.ok()) return writer.status();
  path_ = file;
  for_all_ = !own;
  ended_ = left_;
  scribe_ = std::make_shared<Scribe>();
  scribe_->writer = std::move(writer).value();
  worker_.post([] {
    // The file is in no hurry, and the ranks' own threads may have no core to spare.
    ::pthread_setname_np(::pthread_self(), "rueda-timeline");
    static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWorkerNiceness));
  });
  mark_rounds_ = mark_rounds;
  told_sets_.clear();
  open_.clear();
  asks_left_ = kFirstAsks;
  ask_wanted_ = !shares_clock_;
  if (for_all_) switch_ = TimelineSwitch{true, mark_rounds};
  on_.store(true);
  look_due();
  return {};
}

Status Timeline::stop(Deadline deadline) {
  std::shared_ptr<Scribe> scribe;
  {
    MutexLock lock(mutex_);
    if (path_.empty() || stopping_) return {};
    stopping_ = true;
    on_.store(false);
    draining_.store(!open_.empty());
    if (for_all_) switch_ = TimelineSwitch{};
    look_due();
    const auto waits = [this]() RUEDA_REQUIRES(mutex_) { return draining_ || (for_all_ && !all_ended()); };
    while (waits() && !alone_ && !deadline.passed()) {
      changed_.wait_for(mutex_, deadline.left(std::chrono::seconds(1)));
    }
    draining_.store(false);
    flush();
    scribe = scribe_;
    worker_.post([scribe] {
      scribe->writer.reset();
      MutexLock closing(scribe->mutex);
      scribe->closed = true;
      scribe->changed.notify_all();
    });
  }
  Status closed = await_closed(*scribe, deadline.later(Deadline::after(kCloses)));
  MutexLock lock(mutex_);
  if (closed.code() == Code::kTimeout) {
    closed = {Code::kTimeout,
              fmt::format("rank {}: the timeline {} is not closed yet: its disk takes too long", plan_.rank, path_)};
  }
  path_.clear();
  stopping_ = false;
  return closed;
}

/// How the file ended; kTimeout: it has not.
Status Timeline::await_closed(Scribe& scribe, Deadline deadline) {
  MutexLock lock(scribe.mutex);
  while (!scribe.closed && !deadline.passed()) {
    scribe.changed.wait_for(scribe.mutex, deadline.left(std::chrono::seconds(1)));
  }
  return scribe.closed ? std::exchange(scribe.failure, {}) : Status(Code::kTimeout, "");
}

void Timeline::end() { static_cast<void>(worker_.stop(Deadline::after(kLetsGo))); }

void Timeline::leave(Deadline deadline) {
  if (const Status stopped = stop(deadline); !stopped.ok()) log(LogLevel::kWarning, "{}", stopped.sentence());
  MutexLock lock(mutex_);
  if (!on_.exchange(false) && !draining_) return;
  draining_.store(false);
  last_wanted_ = piece_wanted_ = true;
  look_due();
}

void Timeline::abandon_others() {
  MutexLock lock(mutex_);
  alone_ = true;
  changed_.notify_all();
}

bool Timeline::all_ended() const {
  return std::all_of(ended_.begin() + 1, ended_.end(), [](char ended) { return ended != 0; });
}

void Timeline::tick() {
  if (!on()) return;
  MutexLock lock(mutex_);
  ask_wanted_ = !shares_clock_;
  flush();
  look_due();
}

std::chrono::nanoseconds Timeline::own_shift() const { return clock_.shift().value_or(std::chrono::nanoseconds(0)); }

/// Whether a turn has something to send, and somebody who runs one.
void Timeline::look_due() {
  const bool due = switch_.has_value() || ask_wanted_ || piece_wanted_;
  due_.store(due);
  if (due) ring_();
}

void Timeline::agreed(const Batch& batch) {
  MutexLock lock(mutex_);
  if (!may_append(batch.tensors.size())) return;
  if (mark_rounds_) put(records_, RoundRecord{batch.agreed});
  if (!batch.team->of.empty() && told_sets_.insert(batch.set).second) {
    put(records_, SetRecord{batch.set, batch.team->of});
  }
  for (const TensorPart* tensor : batch.tensors) {
    const Request& request = tensor->request;
    put(records_, NegotiatedRecord{request.name, request.metadata.kind, batch.set, tensor_bytes(*tensor), batch.number,
                                   tensor->operation->submitted, batch.agreed});
  }
  open_.emplace(batch.set, batch.number);
  appended();
}

/// Whether the end of the batch is still wanted.
bool Timeline::close(const Batch& batch) { return open_.erase({batch.set, batch.number}) != 0 || on(); }

void Timeline::look_drained() {
  if (!draining_ || !open_.empty()) return;
  draining_.store(false);
  if (path_.empty()) {
    last_wanted_ = piece_wanted_ = true;
    look_due();
  }
  changed_.notify_all();
}

void Timeline::failed(const Batch& batch) {
  if (!follows()) return;
  MutexLock lock(mutex_);
  static_cast<void>(close(batch));
  look_drained();
}

void Timeline::finished(const Batch& batch, SteadyClock::time_point now) {
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
  MutexLock lock(mutex_);
  if (close(batch) && may_append(1)) {
    put(records_, record);
    appended();
  }
  look_drained();
}

/// Whether these records are wanted and there is room for them; what was lost before is told first.
bool Timeline::may_append(uint64_t records) {
  if (!follows()) return false;
  if (records_.size() > kMostRecordBytes) {
    lost_ += records;
    return false;
  }
  records_.reserve(kTimelinePieceBytes + kTimelinePieceBytes / 4);  // does nothing until a piece is taken
  if (lost_ != 0) put(records_, LostRecord{std::exchange(lost_, 0), SteadyClock::now()});
  return true;
}

void Timeline::appended() {
  if (records_.size() < kTimelinePieceBytes) return;
  if (!path_.empty()) return flush();
  if (piece_wanted_) return;
  piece_wanted_ = true;
  look_due();
}

/// What was recorded so far leaves for the file, or with the next turn.
void Timeline::flush() {
  if (records_.empty()) return;
  if (!path_.empty()) return write(plan_.rank, records_.take(), own_shift());
  piece_wanted_ = true;
}

size_t Timeline::held() {
  MutexLock lock(mutex_);
  return records_.size() + scribe_->queued.load();
}

void Timeline::write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift) {
  if (scribe_->queued.load() > kMostRecordBytes) {
    ++lost_;  // a piece of many records
    return;
  }
  scribe_->queued += records.size();
  worker_.post([scribe = scribe_, own = plan_.rank, rank, shift, records = std::move(records)] {
    scribe->queued -= records.size();
    if (scribe->writer == nullptr) return;
    const Status written = scribe->writer->add(rank, records, shift);
    if (written.ok()) return;
    log(LogLevel::kWarning, "rank {}: {}", own, written.sentence());
    if (written.code() == Code::kSystem) scribe->writer.reset();
    MutexLock failing(scribe->mutex);
    scribe->failure = written;
  });
}

std::optional<TimelineSwitch> Timeline::take_switch() {
  MutexLock lock(mutex_);
  const auto taken = std::exchange(switch_, std::nullopt);
  due_.store(ask_wanted_ || piece_wanted_);
  return taken;
}

std::optional<SteadyClock::time_point> Timeline::take_clock_ask() {
  MutexLock lock(mutex_);
  if (!std::exchange(ask_wanted_, false)) return std::nullopt;
  due_.store(piece_wanted_);
  return SteadyClock::now();
}

/// Where the clock is not known yet a piece waits for it, but for the last.
std::optional<TimelinePiece> Timeline::take_piece() {
  MutexLock lock(mutex_);
  if (!piece_wanted_ || (!shares_clock_ && !clock_.shift() && !last_wanted_)) {
    due_.store(ask_wanted_);
    return std::nullopt;
  }
  piece_wanted_ = false;
  due_.store(ask_wanted_);
  if (!path_.empty()) return TimelinePiece{std::exchange(last_wanted_, false), false, own_shift(), {}};
  const bool full = records_.size() >= kTimelinePieceBytes && !last_wanted_;
  return TimelinePiece{std::exchange(last_wanted_, false), full, own_shift(), records_.take()};
}

void Timeline::switched(const TimelineSwitch& frame) {
  MutexLock lock(mutex_);
  if (!path_.empty()) {  // it records for itself, and rank 0 need not wait for it
    if (!frame.record) last_wanted_ = piece_wanted_ = true;
    return look_due();
  }
  mark_rounds_ = frame.mark_rounds;
  draining_.store(!frame.record && !open_.empty());
  if (frame.record) {
    records_.clear();
    lost_ = 0;
    told_sets_.clear();
    open_.clear();
    asks_left_ = kFirstAsks;
    ask_wanted_ = !shares_clock_;
  } else if (open_.empty()) {
    last_wanted_ = piece_wanted_ = true;
  }
  on_.store(frame.record);
  look_due();
}

void Timeline::clock_answered(const ClockAnswer& answer) {
  MutexLock lock(mutex_);
  clock_.answer(answer.asked, answer.answered, SteadyClock::now());
  if (asks_left_ > 0 && --asks_left_ > 0) ask_wanted_ = true;
  if (ask_wanted_ || piece_wanted_) look_due();
}

void Timeline::received(int rank, TimelinePiece piece) {
  MutexLock lock(mutex_);
  if (path_.empty()) return;
  if (!piece.records.empty()) write(rank, std::move(piece.records), piece.shift);
  if (!piece.last) return;
  ended_[static_cast<size_t>(rank)] = 1;
  changed_.notify_all();
}

void Timeline::left(int rank) {
  MutexLock lock(mutex_);
  left_[static_cast<size_t>(rank)] = ended_[static_cast<size_t>(rank)] = 1;
  changed_.notify_all();
}

}  // namespace rueda::core
