// How the end of the epoch reaches the coordinator: by the launcher's verdict, at once or in order, or by evidence that
// counts on its own.
//
//     verdict, at once     ─▶ epoch_over
//     verdict, in order    ─▶ no more operations, a goodbye ─▶ agreed work has run, or patience ends ─▶ epoch_over
//     evidence that is due ─▶ no goodbye of its rank ─▶ epoch_over
#include "runtime/engine/coordinator.h"
#include "runtime/net/transport.h"

namespace rueda::core {

/// There is at most one verdict in an epoch; an ok one says that its source has ended.
void Coordinator::take_verdict() {
  const std::optional<Verdict> verdict = parts_.verdicts->take();
  if (!verdict) return;
  verdict_taken_ = true;
  if (parts_.formation.transport != nullptr) parts_.formation.transport->unwatch(parts_.verdicts->fd());
  if (verdict->why.ok()) return;
  if (verdict->patience.count() == 0) return parts_.tasks.epoch_over(verdict->why);
  leaving_ = *verdict;
  leave_by_ = Deadline::after(verdict->patience);
  parts_.tasks.begin_to_leave(verdict->why);
}

/// A rank that dies meanwhile ends the epoch by evidence; one that has said goodbye before it died, by the deadline.
void Coordinator::look_whether_left() {
  bool left = parts_.abort.raised();
  if (!left && parts_.baton.try_take_or_wish()) {
    static_cast<void>(parts_.tasks.run_turns());
    left = parts_.tasks.has_left();
    parts_.tasks.settle();
  }
  if (!left && !leave_by_.passed()) return;
  const Status why = leaving_->why;
  leaving_.reset();
  parts_.tasks.epoch_over(why);
}

/// Once, after the epoch has ended with an error. A shutdown is not an error.
void Coordinator::note_error() {
  if (error_noted_ || !parts_.abort.raised() || parts_.abort.why().code() == Code::kShutDown) return;
  error_noted_ = true;
  parts_.tasks.record_error();
}

/// Reads what the silent rank wrote first: a goodbye among it means that the rank did not die, however late it is read.
/// While another thread holds the baton nothing is decided; the wish makes that thread look again.
void Coordinator::judge_evidence() {
  Faults& faults = parts_.faults;
  if (!parts_.baton.try_take_or_wish()) return;
  static_cast<void>(parts_.tasks.run_turns());
  const bool needs_none = faults.has_left(0) || (faults.has_left(parts_.plan.rank) && parts_.tasks.needed_by_none());
  parts_.tasks.settle();
  // After rank 0's goodbye only what still runs needs other ranks: one that came to it late may have said none. After
  // this rank's own it hears no more of others' goodbyes.
  if (needs_none && parts_.lanes.idle()) return faults.forget();
  if (const std::optional<Status> why = faults.due()) parts_.tasks.epoch_over(*why);
}

}  // namespace rueda::core
