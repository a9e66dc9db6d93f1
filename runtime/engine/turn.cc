// One turn, in this order: records of a timeline, callers' wishes, credits; then frames; then what agreement decided;
// then inline batches, and answers to rank 0's questions. Own input goes first, so that one exchange carries it.
//
//     rank 0      receives from all, lets the arbiter plan, sends verdicts, then feeds its own participant
//     a leader    the same for the ranks below it, through its relay (turn_tree.cc)
//     others      send proposals upstream, receive verdicts
//
// A frame of proposals, or of batches, need not wake a receiver that expects nothing (`Urgency`). `urgent_` collects
// whether proposals have anything with them that must; the arbiter knows it of batches.
#include "runtime/engine/turn.h"

#include <fmt/format.h>

#include "runtime/engine/control_frames.h"
#include "runtime/engine/end_frame.h"

namespace rueda::core {

/// Rank 0 has an arbiter besides its participant. A leader in the tree has a relay; rank 0 may be one, and then has all
/// three.
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
  bool moved = send_timeline();  // before a goodbye, after which rank 0 awaits no more records
  moved |= take_inbox();
  while (const std::optional<SetId> unused = parts_.teams.take_unused()) parts_.executor.forget(*unused);
  const bool credits = report_credits();
  report_trials();
  const bool own = moved || credits || urgent_;
  moved |= relay_ ? exchange_as_leader(own) : arbiter_ ? exchange_as_rank_zero(own) : exchange_with_upstream();
  // An exchange without news brings no events.
  if (moved || own) act();
  moved |= parts_.lanes.step_inline();
  moved |= send_answers();
  flush();
  return moved;
}

/// Everything that can give a turn work must be looked at here: what is forgotten waits for the next ring or tick.
bool Turn::input_waiting() const {
  if (!parts_.inbox.empty()) return true;
  if (parts_.abort.raised()) return oldest_ != nullptr || tells_peers();
  for (const int rank : parts_.peers) {
    if (parts_.links[static_cast<size_t>(rank)]->readable()) return true;
  }
  if (!parts_.answers.empty() || parts_.timeline.frames_waiting()) return true;
  if (urgent_ || (parts_.signals.goodbye_wanted.load() && !said_goodbye_)) return true;
  // A credit that rank 0 does not wait for travels with the next frame.
  if (!parts_.signals.credit_wanted.load()) return false;
  for (const auto& [set, team] : parts_.teams.led()) {
    if (team->credits.load() != team->reported) return true;
  }
  return false;
}

bool Turn::tells_peers() const { return !told_peers_ && SteadyClock::now() >= tell_again_; }

/// One lock for all that has been submitted since the last turn.
bool Turn::take_inbox() {
  bool moved = false;
  if (!parts_.inbox.empty()) {
    parts_.inbox.take(taken_);
    taken_at_ = SteadyClock::now();
    proposed_.clear();
    for (InboxItem& item : taken_) take(item);
    taken_count_ += taken_.size();
    taken_.clear();
    if (!proposed_.empty()) note_proposed();
    moved = true;
  }
  // Behind the inbox's items: what callers submitted before they left is agreed before the goodbye.
  if (parts_.signals.goodbye_wanted.load() && !said_goodbye_) {
    said_goodbye_ = true;
    participant_.goodbye();
    urgent_ = true;
    moved = true;
  }
  return moved;
}

/// Only proposals may be left unannounced; each of the other wishes has to reach rank 0 soon.
void Turn::take(InboxItem& item) {
  switch (item.kind) {
    case InboxItem::Kind::kSubmit: return submit(std::move(item.operation));
    case InboxItem::Kind::kAbandon: return abandon(*item.operation);
    case InboxItem::Kind::kAddSet: participant_.add_set(item.set->number, item.set->ranks, item.set->name); break;
    case InboxItem::Kind::kRemoveSet:
      participant_.remove_set(item.set->number);
      parts_.teams.remove(item.set->number);
      break;
  }
  urgent_ = true;
}

/// The sentence is what all ranks get: it says which rank gave up.
void Turn::abandon(Operation& operation) {
  if (operation.done() || operation.tensors().front().request.metadata.kind == OpKind::kJoin) return;
  for (TensorPart& tensor : operation.tensors()) {
    const std::string sentence = fmt::format("{}{} was abandoned by rank {}", describe(tensor),
                                             participant_.of_set(operation.set()), parts_.config.rank);
    participant_.abandon(reinterpret_cast<uint64_t>(&tensor), sentence);
    urgent_ = true;
  }
}

/// Into the list before agreement hears of it: an event about the tensor may come within this turn.
void Turn::submit(std::shared_ptr<Operation> taken) {
  Operation& operation = *taken;
  append(std::move(taken));
  for (TensorPart& tensor : operation.tensors()) {
    proposed_.push_back(&tensor);
    tensor.request.ticket = reinterpret_cast<uint64_t>(&tensor);
  }
  TeamState* const team = parts_.teams.find_number(operation.set());
  const Metadata& first = operation.tensors().front().request.metadata;
  // A proposal need not ring if the upstream rank is a member of the set: nothing is agreed before that rank submits
  // the operation itself, and then it looks. It must ring if that rank is not a member, if the set is not known here
  // yet, or if this receives from any rank.
  const bool asks = first.kind == OpKind::kSend && first.root < 0;
  if (team == nullptr || !team->with_upstream || asks) urgent_ = true;
  // One tensor outside a group goes as it is: copying requests would cost an allocation on the shortest way.
  const std::span<const TensorPart> tensors = operation.tensors();
  if (tensors.size() == 1 && tensors.front().request.group == 0) {
    const uint64_t key = participant_.submit({&tensors.front().request, 1});
    if (key != 0 && team != nullptr) show_early(operation.tensors().front(), *team, key);
  } else {
    requests_.clear();
    for (const TensorPart& tensor : tensors) requests_.push_back(tensor.request);
    describe_group(requests_);
    participant_.submit(requests_);
  }
}

/// Records what the inbox held, all at once: no operation is over before this turn acts on events.
void Turn::note_proposed() {
  parts_.recorder.proposed(proposed_, taken_at_);
  const ProposalCounts counts = participant_.counts();
  parts_.recorder.proposals(counts.by_id, counts.in_full);
}

/// A batch that has started here, or on a device has finished, gives its credit back: rank 0 may plan the next one of
/// the set.
bool Turn::report_credits() {
  bool moved = false;
  for (const auto& [set, team] : parts_.teams.led()) {
    const uint64_t credits = team->credits.load();
    if (credits == team->reported) continue;
    team->reported = credits;
    participant_.started(set, credits - 1);
    urgent_ = true;
    moved = true;
  }
  return moved;
}

/// Puts times into the next frame; they do not hurry it.
void Turn::report_trials() {
  if (parts_.trial_times.empty()) return;
  for (const auto& [set, time] : parts_.trial_times.take()) participant_.timed(set, time);
}

/// `moved`: own input has come, so a frame of its own participant is due even if no peer sent one.
bool Turn::exchange_as_rank_zero(bool moved) {
  for (const int rank : parts_.peers) moved |= receive_all(rank);
  if (!moved) return false;
  // The arbiter plans once, after all that has come, so that batches get as full as they can.
  Status status;
  for (auto frame = participant_.take_frame(); status.ok() && !frame.empty(); frame = participant_.take_frame()) {
    status = arbiter_->receive(0, frame);
  }
  urgent_ = false;
  arbiter_->plan();
  for (const int rank : parts_.peers) {
    // A rank that has a part in a batch expects it.
    const Urgency urgency = arbiter_->must_ring(rank) ? Urgency::kRing : Urgency::kWithNextTurn;
    for (auto frame = arbiter_->take_frame(rank); !frame.empty(); frame = arbiter_->take_frame(rank)) {
      send(rank, std::move(frame), kAgreementFrame, urgency);
    }
  }
  flush();  // the others first: their verdicts have the longer way
  for (auto frame = arbiter_->take_frame(0); status.ok() && !frame.empty(); frame = arbiter_->take_frame(0)) {
    status = participant_.receive(frame);
  }
  urgent_ = participant_.must_ring();
  note_credit_wanted();
  if (!status.ok()) parts_.observer.epoch_over(status);
  return true;
}

/// A lane that starts a batch rings only if this is set. Only the holder of the baton writes it.
void Turn::note_credit_wanted() {
  const bool wanted = arbiter_->out_of_credit();
  if (parts_.signals.credit_wanted.load() != wanted) parts_.signals.credit_wanted.store(wanted);
}

/// Receive before send: verdicts may set operations free that waited for their set, and one frame carries them.
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

/// A broken link is reported only after all that came before the break was taken: a goodbye among it excuses the end.
bool Turn::receive_all(int rank) {
  const auto index = static_cast<size_t>(rank);
  ControlLink* link = parts_.links[index].get();
  if (link == nullptr) return false;
  bool moved = false;
  while (const std::optional<Frame> frame = link->receive()) {
    moved = true;
    parts_.heartbeats.heard(rank);  // any frame is a sign of life
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

/// The last byte says what a frame is (control_frames.h).
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

/// Without a link the frame takes the way through the tree. A lost link drops it: its loss has been reported.
void Turn::send(int rank, std::vector<std::byte> frame, std::byte kind, Urgency urgency) {
  ControlLink* link = parts_.links[static_cast<size_t>(rank)].get();
  if (link == nullptr) return route(rank, frame, kind);
  if (lost_[static_cast<size_t>(rank)] != 0) return;
  frame.push_back(kind);
  link->send(frame, urgency);
  unsent_ = true;
}

/// A lost link does not hold up `flushed_`, and ranks that have left have a word of their own: they may read no more,
/// so a shutdown waits only a moment for them.
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

}  // namespace rueda::core
