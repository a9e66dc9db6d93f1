// What a turn does with the events that agreement gives it, and how tensors leave the list of those in agreement.
//
//     inbox ─▶ append ─▶ oldest_ … newest_ ─┬─ batch event: unlink, build a Call, give it to the set's lane
//     (Turn::submit)                        ├─ error or join event: unlink, finish
//                                           └─ abort: fail_all unlinks and fails all that is left
//
// The list links the tensors themselves, because an operation comes and goes in microseconds: no node is allocated. A
// ticket is a tensor's address. It is valid as long as the tensor is in the list: its operation keeps itself alive
// (`Operation::in_flight`) until it completes.
#include <fmt/format.h>

#include "runtime/base/log.h"
#include "runtime/engine/arriving_rows.h"
#include "runtime/engine/control_frames.h"
#include "runtime/engine/end_frame.h"
#include "runtime/engine/turn.h"

namespace rueda::core {
namespace {

constexpr std::chrono::milliseconds kTellAgain{100};

TensorPart& tensor_of(uint64_t ticket) { return *reinterpret_cast<TensorPart*>(ticket); }

/// A batch may take as long as its most patient operation. If this rank has joined and brings none, it sets no limit of
/// its own: the other members have theirs.
void allow_for(Batch& batch, const TimeLimit& limit) {
  const bool first = batch.tensors.empty();
  const bool longer = limit.time.count() == 0 || (batch.limit.time.count() != 0 && limit.time > batch.limit.time);
  if (first || longer) batch.limit = limit;
}

/// All tensors of a batch lie on one device of one kind: agreement compares the kinds, and a rank uses one device of a
/// kind in a set.
std::unique_ptr<DeviceCall> device_call(const Batch& batch, const Metadata& metadata) {
  if (metadata.device < 0) return nullptr;
  auto call = std::make_unique<DeviceCall>();
  call->set = batch.set;
  call->kind = metadata.device;
  if (batch.tensors.empty()) {
    // This rank has joined: it takes the same steps with neutral elements, which lie in the host's memory.
    call->functions = &cpu_device();
    return call;
  }
  const OperationSpec& spec = batch.tensors.front()->operation->spec();
  call->functions = spec.device;
  call->index = spec.device_index;
  for (const TensorPart* tensor : batch.tensors) {
    const uint64_t token = tensor->operation->token;
    if (token != 0 && (call->ready.empty() || call->ready.back() != token)) call->ready.push_back(token);
  }
  return call;
}

/// Slices that stand in for a tensor are as many as the neutral block wants, and for a device it is one.
void list_tensors(const Batch& batch, const BatchEvent& event, DeviceCall& call) {
  for (size_t i = 0; i < event.tickets.size(); ++i) {
    if (event.tickets[i] == kNoTicket) {
      call.tensors.push_back({nullptr, nullptr, event.counts[i]});
    } else {
      call.tensors.push_back(batch.storage[batch.slots[call.own.size()]]);
      call.own.push_back(i);
    }
  }
}

}  // namespace

/// Events come in the order that all ranks share, and are taken in it: lanes must get their batches in the same order
/// everywhere, and a set's first batch follows the event that makes the set known.
void Turn::act() {
  participant_.take_events(events_);
  for (const Event& event : events_) {
    if (const auto* batch = std::get_if<BatchEvent>(&event)) {
      start_batch(*batch);
    } else if (const auto* error = std::get_if<ErrorEvent>(&event)) {
      fail(*error);
    } else if (const auto* join = std::get_if<JoinEvent>(&event)) {
      TensorPart& tensor = tensor_of(join->ticket);
      tensor.operation->last_joined = join->last;
      unlink(tensor);
      parts_.observer.tensor_finished(tensor, {});
    } else if (const auto* set = std::get_if<SetEvent>(&event)) {
      parts_.teams.add(set->number, set->members, participant_.of_set(set->number));
    } else if (const auto* received = std::get_if<SourceEvent>(&event)) {
      tensor_of(received->ticket).operation->source = received->source;
    } else if (const auto* level = std::get_if<LevelEvent>(&event)) {
      log(LogLevel::kDebug, "rank {} counts as having submitted {} \"{}\", which its own group does not name",
          parts_.config.rank, name_of(level->kind), level->name);
    } else {
      note_goodbye(std::get<GoodbyeEvent>(event).rank);
    }
  }
}

void Turn::fail(const ErrorEvent& error) {
  for (const uint64_t ticket : error.tickets) {
    TensorPart& tensor = tensor_of(ticket);
    hide_early(ticket);
    unlink(tensor);
    parts_.observer.tensor_finished(tensor, error.status);  // may free the operation
  }
}

/// A rank that has left needs no more frames, and the end of its link is no news: it counts as lost. Frames still go
/// to rank 0, and to a leader through which others are reached, and the ends of their links are still reported.
void Turn::note_goodbye(int rank) {
  left_[static_cast<size_t>(rank)] = 1;
  if (rank != parts_.config.rank && rank != 0 && !passes_on(rank)) lost_[static_cast<size_t>(rank)] = 1;
  parts_.observer.rank_left(rank);
}

/// The tensors of the verdict in its order, which is that of the slices on all ranks. If this rank has joined,
/// slices of the neutral element stand in for the tensor it does not have.
void Turn::add_tensors(Batch& batch, const BatchEvent& event) {
  batch.tensors.reserve(event.tickets.size());
  batch.slots.reserve(event.tickets.size());
  batch.storage.reserve(event.tickets.size());
  const BatchRunner runner = batch.inline_algorithm ? BatchRunner::kTurns : BatchRunner::kLane;
  for (size_t i = 0; i < event.tickets.size(); ++i) {
    if (event.tickets[i] == kNoTicket) {
      if (batch.absent == nullptr) {
        batch.absent = std::make_unique<AbsentInput>(event.metadata, batch.team->team.size());
      }
      batch.absent->append(event.counts[i], event.rows.empty() ? 1 : event.rows[i], batch.storage);
      batch.call.count += event.counts[i];
      continue;
    }
    TensorPart& tensor = tensor_of(event.tickets[i]);
    unlink(tensor);
    tensor.operation->enter_batch(runner);
    allow_for(batch, tensor.operation->limit());
    batch.tensors.push_back(&tensor);
    batch.slots.push_back(batch.storage.size());
    batch.storage.push_back(tensor.slice);
    batch.call.count += tensor.slice.count;
  }
}

/// A batch that there is no memory for leaves its tensors in the list, where the end of the epoch finds them.
void Turn::start_batch(const BatchEvent& event) {
  auto batch = std::make_unique<Batch>();
  try {
    fill(*batch, event);
    const LaneUse use = batch->call.device != nullptr ? LaneUse::kDevices : LaneUse::kHostMemory;
    parts_.lanes.of(event.set, use).submit(std::move(batch));
  } catch (...) {
    if (batch != nullptr) {  // no lane has it
      for (TensorPart* tensor : batch->tensors) link(*tensor);
    }
    throw;
  }
}

void Turn::fill(Batch& batch, const BatchEvent& event) {
  batch.set = event.set;
  batch.number = event.number;
  batch.team = parts_.teams.find(event.set);
  batch.inline_algorithm = event.metadata.device < 0 && parts_.executor.runs_inline(event.choice);
  add_tensors(batch, event);
  const Metadata& metadata = event.metadata;
  Call& call = batch.call;
  if (metadata.over == AverageOver::kContributors) call.divisor = event.contributors;
  describe(metadata, call);
  call.slices = batch.storage;  // which grows no more
  call.choice = event.choice;
  call.key = event.key;
  batch.device = device_call(batch, metadata);
  if (batch.device != nullptr && event.contributors != 0) list_tensors(batch, event, *batch.device);
  call.device = batch.device.get();
  if (exchanges(metadata.kind)) batch.arrivals = std::make_unique<ArrivingRows>(batch.tensors, call.device);
  call.arrivals = batch.arrivals.get();
  call.stamp = event.stamp;
  const Team& team = batch.team->team;
  call.team = &team;
  note_latest(event, *batch.team);
  for (int index = 0; index < team.size(); ++index) {
    if (team.ranks[static_cast<size_t>(index)] == metadata.root) call.root = index;
  }
  parts_.recorder.agreed(batch);
}

/// The limit asks for a verdict and does not fail the tensor here: rank 0 may have put it into a batch already, which
/// then runs on all ranks. Asked once for each operation.
void Turn::expire(SteadyClock::time_point now) {
  for (TensorPart* tensor = oldest_; tensor != nullptr; tensor = tensor->next) {
    // A join waits for other ranks that are at work, which may take any time.
    if (tensor->operation->abandoned || tensor->request.metadata.kind == OpKind::kJoin) continue;
    const TimeLimit limit = tensor->operation->limit();
    if (limit.time.count() <= 0 || now - tensor->operation->submitted <= limit.time) continue;
    tensor->operation->abandoned = true;
    urgent_ = true;
    const std::string of = participant_.of_set(tensor->operation->set());
    for (TensorPart& each : tensor->operation->tensors()) {
      participant_.abandon(reinterpret_cast<uint64_t>(&each), fmt::format("{}{}: not all ranks submitted it within {}",
                                                                          describe(each), of, describe(limit)));
    }
  }
}

/// What is in the inbox enters the list first, so that one loop fails everything. A batch in a lane is not here: its
/// wait sees the abort, and the lane fails it.
bool Turn::fail_all(const Status& why) {
  bool moved = false;
  append_taken();  // of a turn that ended by an exception
  parts_.inbox.take(taken_);
  append_taken();
  while (oldest_ != nullptr) {
    TensorPart& tensor = *oldest_;
    unlink(tensor);
    parts_.observer.tensor_finished(tensor, why);
    moved = true;
  }
  // Behind the tensors, which need no memory. If there is none for a frame, a later turn tries again; a peer that is
  // told twice takes no harm.
  if (tells_peers()) {
    tell_again_ = SteadyClock::now() + kTellAgain;
    tell_peers(why);
    told_peers_ = true;
  }
  moved |= parts_.lanes.step_inline();
  flush();
  return moved;
}

/// The peers hear of an orderly end by a goodbye, not by this frame, which would end what they still run.
void Turn::tell_peers(const Status& why) {
  if (why.code() == Code::kShutDown && why.rank() == parts_.config.rank) return;
  if (parts_.signals.all_leave.load()) return;
  const std::vector<std::byte> frame = encode_end(why);
  for (const int rank : parts_.peers) send(rank, frame, kEndFrame, Urgency::kRing);
}

/// What an earlier call has appended is no longer in its item.
void Turn::append_taken() {
  for (InboxItem& item : taken_) {
    if (item.kind == InboxItem::Kind::kSubmit && item.operation != nullptr) append(std::move(item.operation));
  }
  taken_.clear();
}

/// From here on the operation keeps itself alive.
void Turn::append(std::shared_ptr<Operation> operation) {
  for (TensorPart& tensor : operation->tensors()) link(tensor);
  Operation& appended = *operation;
  appended.in_flight = std::move(operation);
}

void Turn::link(TensorPart& tensor) {
  tensor.previous = newest_;
  tensor.next = nullptr;
  (newest_ != nullptr ? newest_->next : oldest_) = &tensor;
  newest_ = &tensor;
}

void Turn::unlink(TensorPart& tensor) {
  (tensor.previous != nullptr ? tensor.previous->next : oldest_) = tensor.next;
  (tensor.next != nullptr ? tensor.next->previous : newest_) = tensor.previous;
}

}  // namespace rueda::core
