#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/early_guess.h"
#include "runtime/agreement/relay.h"
#include "runtime/base/abort.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/heartbeats.h"
#include "runtime/engine/inbox.h"
#include "runtime/engine/inquiry.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/late_batch.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/teams.h"
#include "runtime/engine/timeline.h"
#include "runtime/engine/trial_times.h"
#include "runtime/net/control_link.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// What a turn tells the engine. The baton's holder calls it, from inside a turn.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void tensor_finished(TensorPart& tensor, const Status& status) RUEDA_ON(baton_holder) = 0;
  /// `rank` said goodbye and has its position in the order.
  virtual void rank_left(int rank) RUEDA_ON(baton_holder) = 0;
  /// The link to `rank` closed or broke without a goodbye: evidence, not yet a verdict.
  virtual void link_lost(int rank, const Status& how) RUEDA_ON(baton_holder) = 0;
  /// The epoch is over: a verdict came from rank 0, or a frame broke the protocol.
  virtual void epoch_over(const Status& why) = 0;
  /// Rank 0 wants to know what this rank is doing and awaits an answer with this number.
  virtual void asked(const Ask& ask) RUEDA_ON(baton_holder) = 0;
  /// On rank 0: `rank` says what it is doing.
  virtual void answered(int rank, const Answer& answer) RUEDA_ON(baton_holder) = 0;
  /// On rank 0: a rank tells what has run there for long.
  virtual void heard_of_late(const LateBatch& batch) RUEDA_ON(baton_holder) = 0;
};

/// What other threads tell and ask the turn.
struct TurnSignals {
  std::atomic<bool> goodbye_wanted{false};  ///< the next run says goodbye, after everything in the inbox
  std::atomic<bool> credit_wanted{true};    ///< a batch waits for a credit: a thread that returns one rings
  std::atomic<bool> all_leave{false};  ///< the epoch has ended in order, and does so on all ranks, each by a goodbye
};

/// One pass of the engine: drain the inbox, exchange frames, agree, hand batches to lanes, step inline batches. Never
/// waits for a peer. The engine owns it. All functions and all state here belong to the baton's holder, which clang
/// proves; the other threads reach a turn through `Inbox`, `Answers`, `TurnSignals` and `Timeline`.
class Turn {
 public:
  /// References outlive the turn.
  struct Parts {
    AgreementConfig config;
    std::vector<std::unique_ptr<ControlLink>> links;  ///< by rank, for those in `control_peers`
    std::vector<int> peers;                           ///< `control_peers`
    int upstream;                                     ///< `control_upstream`
    std::optional<RelayConfig> relay;  ///< if this rank leads a host in the tree; its first child is the rank itself
    Heartbeats heartbeats;             ///< of its edges to other hosts
    Inbox& inbox;
    Lanes& lanes;
    Teams& teams;
    Executor& executor;
    TurnObserver& observer;
    TurnSignals& signals;
    const Abort& abort;
    Recorder& recorder;
    Answers& answers;
    Timeline& timeline;
    TrialTimes& trial_times;
    bool early_inputs = false;  ///< see turn_early.cc
  };
  explicit Turn(Parts parts);
  ~Turn();

  /// Returns true if anything moved.
  bool run() RUEDA_ON(baton_holder);
  /// How many wishes of callers turns have taken.
  uint64_t taken() const RUEDA_ON(baton_holder) { return taken_count_; }
  /// Whether something came that a turn would take: the look before the baton is put down.
  bool input_waiting() const RUEDA_ON(baton_holder);
  /// Whether every frame for a rank that still listens has left. If not, keep running turns.
  bool flushed() const RUEDA_ON(baton_holder) { return flushed_; }
  /// Whether every frame for a rank that has said goodbye has left. Such a rank may not have read yet that it, or this
  /// rank, has left; or it will never read again.
  bool flushed_to_leavers() const RUEDA_ON(baton_holder) { return flushed_to_leavers_; }
  /// After the abort was raised: whether a turn has tried to send peers the reason. It fails only for lack of memory.
  /// Turns then try again, but a shutdown need not wait for that: peers see the connection end.
  bool tried_to_tell_peers() const RUEDA_ON(baton_holder) { return tell_again_ != SteadyClock::time_point(); }
  /// Whether operations are in agreement.
  bool expecting() const RUEDA_ON(baton_holder) { return oldest_ != nullptr; }
  /// Asks for error verdicts for what is in no batch yet and was submitted longer ago than its limit.
  void expire(SteadyClock::time_point now) RUEDA_ON(baton_holder);
  /// Whether this rank passes on nothing that others still need: a leader of the tree stays until all below have left.
  bool needed_by_none() const RUEDA_ON(baton_holder) { return !relay_ || relay_->all_left(); }
  /// Says goodbye for all below that have not left.
  void dismiss_below() RUEDA_ON(baton_holder);
  /// In the tree: sends up what has been held since the last call if nothing has moved, so that rank 0 knows which
  /// ranks are missing.
  void release_held() RUEDA_ON(baton_holder);
  /// In the tree: shows leaders of other hosts that this rank lives, and returns the ranks that have been silent for
  /// too long.
  std::vector<int> look_for_silence(SteadyClock::time_point now) RUEDA_ON(baton_holder);
  /// After the abort was raised: fails everything that no lane holds. `run` does so too. True if anything moved.
  bool fail_all(const Status& why) RUEDA_ON(baton_holder);
  /// On rank 0: what waits for ranks that have not submitted it. Elsewhere empty.
  std::vector<Stalled> stalled(SteadyClock::time_point now) RUEDA_ON(baton_holder);
  /// On rank 0: asks ranks what they are doing.
  void ask(std::span<const int> ranks, const Ask& ask) RUEDA_ON(baton_holder);
  /// Tells rank 0 of a batch that has run here for long.
  void tell_late(const LateBatch& batch) RUEDA_ON(baton_holder);

 private:
  // turn.cc: inputs and frames
  bool take_inbox() RUEDA_ON(baton_holder);
  void take(InboxItem& item) RUEDA_ON(baton_holder);
  void submit(std::shared_ptr<Operation> taken) RUEDA_ON(baton_holder);
  void note_proposed() RUEDA_ON(baton_holder);
  void abandon(Operation& operation) RUEDA_ON(baton_holder);
  bool report_credits() RUEDA_ON(baton_holder);
  void report_trials() RUEDA_ON(baton_holder);
  bool exchange_as_rank_zero(bool credits) RUEDA_ON(baton_holder);
  void note_credit_wanted() RUEDA_ON(baton_holder);
  bool exchange_with_upstream() RUEDA_ON(baton_holder);
  bool receive_all(int rank) RUEDA_ON(baton_holder);
  Status dispatch(int rank, const Frame& frame) RUEDA_ON(baton_holder);
  void send(int rank, std::vector<std::byte> frame, std::byte kind, Urgency urgency) RUEDA_ON(baton_holder);
  void flush() RUEDA_ON(baton_holder);
  // turn_report.cc: what ranks tell each other about themselves
  Status dispatch_report(int rank, std::byte kind, std::span<const std::byte> body) RUEDA_ON(baton_holder);
  Status dispatch_timeline(int rank, std::byte kind, std::span<const std::byte> body) RUEDA_ON(baton_holder);
  bool send_answers() RUEDA_ON(baton_holder);
  bool send_timeline() RUEDA_ON(baton_holder);
  // turn_tree.cc: a leader's part
  bool exchange_as_leader(bool moved) RUEDA_ON(baton_holder);
  Status pass_up() RUEDA_ON(baton_holder);
  void pass_down() RUEDA_ON(baton_holder);
  Status dispatch_in_tree(int rank, std::byte kind, std::span<const std::byte> body) RUEDA_ON(baton_holder);
  int next_hop(int rank) const RUEDA_ON(baton_holder);
  void route(int rank, std::span<const std::byte> frame, std::byte kind) RUEDA_ON(baton_holder);
  Status dispatch_routed(int rank, std::span<const std::byte> body) RUEDA_ON(baton_holder);
  bool passes_on(int rank) const RUEDA_ON(baton_holder);
  void link_lost(int rank, const Status& how) RUEDA_ON(baton_holder);
  // turn_events.cc: what agreement decided
  void act() RUEDA_ON(baton_holder);
  void fail(const ErrorEvent& error) RUEDA_ON(baton_holder);
  void note_goodbye(int rank) RUEDA_ON(baton_holder);
  void start_batch(const BatchEvent& event) RUEDA_ON(baton_holder);
  void fill(Batch& batch, const BatchEvent& event) RUEDA_ON(baton_holder);
  void add_tensors(Batch& batch, const BatchEvent& event) RUEDA_ON(baton_holder);
  bool tells_peers() const RUEDA_ON(baton_holder);
  void tell_peers(const Status& why) RUEDA_ON(baton_holder);
  void append_taken() RUEDA_ON(baton_holder);
  void append(std::shared_ptr<Operation> operation) RUEDA_ON(baton_holder);
  void link(TensorPart& tensor) RUEDA_ON(baton_holder);
  void unlink(TensorPart& tensor) RUEDA_ON(baton_holder);
  // turn_early.cc: inputs that peers see before their batch is agreed
  void show_early(TensorPart& tensor, TeamState& team, uint64_t key) RUEDA_ON(baton_holder);
  void note_latest(const BatchEvent& event, TeamState& team) RUEDA_ON(baton_holder);
  void hide_early(uint64_t ticket) RUEDA_ON(baton_holder);

  Parts parts_ RUEDA_GUARDED_BY(baton_holder);
  Participant participant_ RUEDA_GUARDED_BY(baton_holder);
  std::optional<Arbiter> arbiter_ RUEDA_GUARDED_BY(baton_holder);  ///< on rank 0
  std::optional<Relay> relay_ RUEDA_GUARDED_BY(baton_holder);      ///< on a leader in the tree
  std::vector<int> child_of_ RUEDA_GUARDED_BY(baton_holder);       ///< by rank: its child number in the relay, or -1
  std::vector<InboxItem> taken_ RUEDA_GUARDED_BY(baton_holder);  ///< an operation that is in the list has left its item
  std::vector<TensorPart*> proposed_ RUEDA_GUARDED_BY(baton_holder);  ///< from the inbox that is being taken
  uint64_t taken_count_ RUEDA_GUARDED_BY(baton_holder) = 0;
  SteadyClock::time_point taken_at_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<Event> events_ RUEDA_GUARDED_BY(baton_holder);  ///< kept for its memory
  std::vector<Request> requests_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<char> lost_ RUEDA_GUARDED_BY(baton_holder);  ///< by rank: its link was reported, or it needs nothing more
  std::vector<char> left_ RUEDA_GUARDED_BY(baton_holder);  ///< by rank: it has said goodbye
  uint64_t passed_up_ RUEDA_GUARDED_BY(baton_holder) = 0;  ///< relayed frames
  uint64_t passed_before_ RUEDA_GUARDED_BY(baton_holder) = 0;    ///< `passed_up_` at the last `release_held`
  TensorPart* oldest_ RUEDA_GUARDED_BY(baton_holder) = nullptr;  ///< tensors in agreement, in order of submission
  TensorPart* newest_ RUEDA_GUARDED_BY(baton_holder) = nullptr;
  EarlyGuess guess_ RUEDA_GUARDED_BY(baton_holder);
  Lane* shown_on_ RUEDA_GUARDED_BY(baton_holder) = nullptr;  ///< where the latest guess is shown
  bool said_goodbye_ RUEDA_GUARDED_BY(baton_holder) = false;
  bool dismissed_ RUEDA_GUARDED_BY(baton_holder) = false;  ///< all below
  bool told_peers_ RUEDA_GUARDED_BY(baton_holder) = false;
  SteadyClock::time_point tell_again_ RUEDA_GUARDED_BY(baton_holder);  ///< the next try, if there was no memory
  bool urgent_ RUEDA_GUARDED_BY(baton_holder) = false;  ///< the next frame to rank 0 holds more than proposals
  bool unsent_ RUEDA_GUARDED_BY(baton_holder) = false;  ///< some link has something to flush
  bool flushed_ RUEDA_GUARDED_BY(baton_holder) = true;
  bool flushed_to_leavers_ RUEDA_GUARDED_BY(baton_holder) = true;
};

/// The configuration of this rank's relay in the control tree. The first child is the rank itself, then come the other
/// ranks of its host, then the hosts below. Empty if this rank leads no host or the job has no tree. Pure.
std::optional<RelayConfig> relay_config(const EpochPlan& plan, const std::vector<SetMembers>& sets);

}  // namespace rueda::core
