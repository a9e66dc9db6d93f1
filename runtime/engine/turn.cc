#include "runtime/engine/turn.h"

#include <fmt/format.h>

#include "runtime/base/log.h"
#include "runtime/engine/arriving_rows.h"
#include "runtime/engine/control_frames.h"
#include "runtime/engine/end_frame.h"

namespace rueda::core {
namespace {

TensorPart& tensor_of(uint64_t ticket) { return *reinterpret_cast<TensorPart*>(ticket); }

/// A batch may take as long as any of its operations; where this rank has joined and has none, as long as the others
/// let it.
void allow_for(Batch& batch, const TimeLimit& limit) {
  const bool first = batch.tensors.empty();
  const bool longer = limit.time.count() == 0 || (batch.limit.time.count() != 0 && limit.time > batch.limit.time);
  if (first || longer) batch.limit = limit;
}

}  // namespace

Turn::Turn(Parts parts)
    : parts_(std::move(parts)),
      participant_(parts_.config),
      child_of_(static_cast<size_t>(parts_.config.size), -1),
      lost_(static_cast<size_t>(parts_.config.size)),
      left_(static_cast<size_t>(parts_.config.size)) {
  if (parts_.config.rank == 0) arbiter_.emplace(parts_.config);
  if (!parts_.relay) return;
  relay_.emplace(*parts_.relay);
  for (size_t child = 0; child < parts_.relay->children.size(); ++child) {
    child_of_[static_cast<size_t>(parts_.relay->children[child].ranks.front())] = static_cast<int>(child);
  }
}

Turn::~Turn() = default;

bool Turn::run() {
  if (parts_.abort.raised()) return fail_all(parts_.abort.why());
  bool moved = send_timeline();  // before a goodbye
  moved |= take_inbox();
  const bool credits = report_credits();
  const bool own = moved || credits || urgent_;
  moved |= relay_ ? exchange_as_leader(own) : arbiter_ ? exchange_as_rank_zero(own) : exchange_with_upstream();
  if (moved || own) act();
  moved |= parts_.lanes.step_inline();
  moved |= send_answers();
  flush();
  return moved;
}

bool Turn::input_waiting() const {
  if (!parts_.inbox.empty()) return true;
  if (parts_.abort.raised()) return oldest_ != nullptr || !told_peers_;
  for (const int rank : parts_.peers) {
    if (parts_.links[static_cast<size_t>(rank)]->readable()) return true;
  }
  if (!parts_.answers.empty() || parts_.timeline.frames_waiting()) return true;
  if (urgent_ || (parts_.signals.goodbye_wanted.load() && !said_goodbye_)) return true;
  if (!parts_.signals.credit_wanted.load()) return false;
  for (const auto& [set, team] : parts_.teams.led()) {
    if (team->started.load() != team->reported) return true;
  }
  return false;
}

bool Turn::take_inbox() {
  bool moved = false;
  if (!parts_.inbox.empty()) {
    parts_.inbox.take(taken_);
    for (const InboxItem& item : taken_) take(item);
    taken_.clear();
    moved = true;
  }
  if (parts_.signals.goodbye_wanted.load() && !said_goodbye_) {
    said_goodbye_ = true;
    participant_.goodbye();
    urgent_ = true;
    moved = true;
  }
  return moved;
}

void Turn::take(const InboxItem& item) {
  switch (item.kind) {
    case InboxItem::Kind::kSubmit: return submit(*item.operation);
    case InboxItem::Kind::kAbandon: return abandon(*item.operation);
    case InboxItem::Kind::kAddSet: participant_.add_set(item.set.number, item.set.ranks, item.set.name); break;
    case InboxItem::Kind::kRemoveSet:
      participant_.remove_set(item.set.number);
      parts_.teams.remove(item.set.number);
      break;
  }
  urgent_ = true;
}

void Turn::abandon(Operation& operation) {
  if (operation.done() || operation.tensors().front().request.metadata.kind == OpKind::kJoin) return;
  for (TensorPart& tensor : operation.tensors()) {
    const std::string sentence = fmt::format("{}{} was abandoned by rank {}", describe(tensor),
                                             participant_.of_set(operation.set()), parts_.config.rank);
    participant_.abandon(reinterpret_cast<uint64_t>(&tensor), sentence);
    urgent_ = true;
  }
}

void Turn::submit(Operation& operation) {
  for (TensorPart& tensor : operation.tensors()) {
    append(tensor);
    tensor.request.ticket = reinterpret_cast<uint64_t>(&tensor);
  }
  const TeamState* team = parts_.teams.find_number(operation.set());
  const Metadata& first = operation.tensors().front().request.metadata;
  const bool asks = first.kind == OpKind::kSend && first.root < 0;  // who sends
  if (team == nullptr || !team->with_upstream || asks) urgent_ = true;
  parts_.recorder.proposed(operation);
  const std::vector<TensorPart>& tensors = operation.tensors();
  if (tensors.size() == 1 && tensors.front().request.group == 0) {
    participant_.submit({&tensors.front().request, 1});
  } else {
    requests_.clear();
    for (const TensorPart& tensor : tensors) requests_.push_back(tensor.request);
    describe_group(requests_);
    participant_.submit(requests_);
  }
  const ProposalCounts counts = participant_.counts();
  parts_.recorder.proposals(counts.by_id, counts.in_full);
}

bool Turn::report_credits() {
  bool moved = false;
  for (const auto& [set, team] : parts_.teams.led()) {
    const uint64_t started = team->started.load();
    if (started == team->reported) continue;
    team->reported = started;
    participant_.started(set, started - 1);
    urgent_ = true;
    moved = true;
  }
  return moved;
}

bool Turn::exchange_as_rank_zero(bool moved) {
  for (const int rank : parts_.peers) moved |= receive_all(rank);
  if (!moved) return false;
  Status status;
  for (auto frame = participant_.take_frame(); status.ok() && !frame.empty(); frame = participant_.take_frame()) {
    status = arbiter_->receive(0, frame);
  }
  urgent_ = false;
  arbiter_->plan();
  for (const int rank : parts_.peers) {
    for (auto frame = arbiter_->take_frame(rank); !frame.empty(); frame = arbiter_->take_frame(rank)) {
      send(rank, std::move(frame), kAgreementFrame, Urgency::kRing);
    }
  }
  flush();
  for (auto frame = arbiter_->take_frame(0); status.ok() && !frame.empty(); frame = arbiter_->take_frame(0)) {
    status = participant_.receive(frame);
  }
  urgent_ = participant_.must_ring();
  parts_.signals.credit_wanted.store(arbiter_->out_of_credit());
  if (!status.ok()) parts_.observer.epoch_over(status);
  return true;
}

bool Turn::exchange_with_upstream() {
  bool moved = receive_all(parts_.upstream);
  urgent_ |= participant_.must_ring();
  for (auto frame = participant_.take_frame(); !frame.empty(); frame = participant_.take_frame()) {
    send(parts_.upstream, std::move(frame), kAgreementFrame, urgent_ ? Urgency::kRing : Urgency::kWithNextTurn);
    moved = true;
  }
  urgent_ = false;
  flush();
  return moved;
}

bool Turn::receive_all(int rank) {
  const auto index = static_cast<size_t>(rank);
  ControlLink* link = parts_.links[index].get();
  if (link == nullptr) return false;
  bool moved = false;
  while (const std::optional<Frame> frame = link->receive()) {
    moved = true;
    parts_.heartbeats.heard(rank);
    if (const Status status = dispatch(rank, *frame); !status.ok()) {
      parts_.observer.epoch_over(status);
      return true;
    }
  }
  if (lost_[index] == 0 && !link->status().ok()) {
    lost_[index] = 1;
    link_lost(rank, link->status());
  }
  return moved;
}

Status Turn::dispatch(int rank, const Frame& frame) {
  if (frame.empty()) return Status(Code::kPeerLost, fmt::format("rank {} sent an empty control frame", rank), rank);
  const std::span<const std::byte> body(frame.data(), frame.size() - 1);
  if (frame.back() == kEndFrame) return decode_end(body, rank);
  if (frame.back() == kRoutedFrame) return dispatch_routed(rank, body);
  if (frame.back() == kAliveFrame) return {};
  if (relay_) return dispatch_in_tree(rank, frame.back(), body);
  if (frame.back() == kAgreementFrame) return arbiter_ ? arbiter_->receive(rank, body) : participant_.receive(body);
  return dispatch_report(rank, frame.back(), body);
}

void Turn::send(int rank, std::vector<std::byte> frame, std::byte kind, Urgency urgency) {
  ControlLink* link = parts_.links[static_cast<size_t>(rank)].get();
  if (link == nullptr) return route(rank, frame, kind);
  if (lost_[static_cast<size_t>(rank)] != 0) return;
  frame.push_back(kind);
  link->send(frame, urgency);
  unsent_ = true;
}

void Turn::flush() {
  if (!unsent_) return;
  unsent_ = false;
  flushed_ = true;
  flushed_to_leavers_ = true;
  for (const int rank : parts_.peers) {
    const auto index = static_cast<size_t>(rank);
    if (parts_.links[index]->flush()) continue;
    unsent_ = true;
    if (lost_[index] == 0) {
      flushed_ = false;
    } else if (left_[index] != 0 && parts_.links[index]->status().ok()) {
      flushed_to_leavers_ = false;
    }
  }
}

void Turn::act() {
  const std::vector<Event> events = participant_.take_events();
  for (const Event& event : events) {
    if (const auto* batch = std::get_if<BatchEvent>(&event)) {
      start_batch(*batch);
    } else if (const auto* error = std::get_if<ErrorEvent>(&event)) {
      for (const uint64_t ticket : error->tickets) {
        unlink(tensor_of(ticket));
        parts_.observer.tensor_finished(tensor_of(ticket), error->status);
      }
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
      const int rank = std::get<GoodbyeEvent>(event).rank;
      left_[static_cast<size_t>(rank)] = 1;
      if (rank != parts_.config.rank && rank != 0 && !passes_on(rank)) lost_[static_cast<size_t>(rank)] = 1;
      parts_.observer.rank_left(rank);
    }
  }
}

void Turn::start_batch(const BatchEvent& event) {
  TeamState& team = *parts_.teams.find(event.set);
  auto batch = std::make_unique<Batch>();
  batch->set = event.set;
  batch->number = event.number;
  batch->team = &team;
  batch->inline_algorithm = parts_.executor.runs_inline(event.choice);
  const BatchRunner runner = batch->inline_algorithm ? BatchRunner::kTurns : BatchRunner::kLane;
  const Metadata& metadata = event.metadata;
  Call& call = batch->call;
  for (size_t i = 0; i < event.tickets.size(); ++i) {
    if (event.tickets[i] == kNoTicket) {
      if (batch->absent == nullptr) batch->absent = std::make_unique<AbsentInput>(metadata, team.team.size());
      batch->absent->append(event.counts[i], event.rows.empty() ? 1 : event.rows[i], batch->storage);
      call.count += event.counts[i];
      continue;
    }
    TensorPart& tensor = tensor_of(event.tickets[i]);
    unlink(tensor);
    tensor.operation->enter_batch(runner);
    allow_for(*batch, tensor.operation->limit());
    batch->tensors.push_back(&tensor);
    batch->places.push_back(batch->storage.size());
    batch->storage.push_back(tensor.slice);
    call.count += tensor.slice.count;
  }
  if (metadata.over == AverageOver::kContributors) call.divisor = event.contributors;
  call.kind = metadata.kind;
  call.dtype = metadata.dtype;
  call.op = metadata.op;
  call.codec = metadata.codec;
  call.prescale = metadata.prescale;
  call.postscale = metadata.postscale;
  call.slices = batch->storage;
  call.choice = event.choice;
  if (exchanges(metadata.kind)) batch->arrivals = std::make_unique<ArrivingRows>(batch->tensors);
  call.arrivals = batch->arrivals.get();
  call.stamp = event.stamp;
  call.team = &team.team;
  for (int index = 0; index < team.team.size(); ++index) {
    if (team.team.ranks[static_cast<size_t>(index)] == metadata.root) call.root = index;
  }
  parts_.recorder.agreed(*batch);
  parts_.lanes.of(event.set).submit(std::move(batch));
}

void Turn::expire(SteadyClock::time_point now) {
  for (TensorPart* tensor = oldest_; tensor != nullptr; tensor = tensor->next) {
    // A join waits for others who are at work.
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

bool Turn::fail_all(const Status& why) {
  bool moved = false;
  parts_.inbox.take(taken_);
  for (const InboxItem& item : taken_) {
    if (item.kind != InboxItem::Kind::kSubmit) continue;
    for (TensorPart& tensor : item.operation->tensors()) append(tensor);
  }
  taken_.clear();
  if (!told_peers_) {
    told_peers_ = true;
    tell_peers(why);
  }
  while (oldest_ != nullptr) {
    TensorPart& tensor = *oldest_;
    unlink(tensor);
    parts_.observer.tensor_finished(tensor, why);
    moved = true;
  }
  moved |= parts_.lanes.step_inline();
  flush();
  return moved;
}

void Turn::tell_peers(const Status& why) {
  if (why.code() == Code::kShutDown && why.rank() == parts_.config.rank) return;
  const std::vector<std::byte> frame = encode_end(why);
  for (const int rank : parts_.peers) send(rank, frame, kEndFrame, Urgency::kRing);
}

void Turn::append(TensorPart& tensor) {
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
