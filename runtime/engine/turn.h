#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/relay.h"
#include "runtime/base/abort.h"
#include "runtime/engine/heartbeats.h"
#include "runtime/engine/inbox.h"
#include "runtime/engine/inquiry.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/late_batch.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/teams.h"
#include "runtime/engine/timeline.h"
#include "runtime/net/control_link.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// What a turn tells the engine. Called by the baton's holder.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void tensor_finished(TensorPart& tensor, const Status& status) = 0;
  /// `rank` said goodbye and has its place in the order.
  virtual void rank_left(int rank) = 0;
  /// The link to `rank` closed or broke without a goodbye: evidence, not yet a verdict.
  virtual void link_lost(int rank, const Status& how) = 0;
  /// The epoch is over: a verdict came from rank 0, or a frame broke the protocol.
  virtual void epoch_over(const Status& why) = 0;
  /// Rank 0 wants to know what this rank is doing: an answer with this number is to come.
  virtual void asked(const Ask& ask) = 0;
  /// On rank 0: `rank` says what it is doing.
  virtual void answered(int rank, const Answer& answer) = 0;
  /// On rank 0: a rank tells what has run there for long.
  virtual void heard_of_late(const LateBatch& batch) = 0;
};

/// What other threads tell and ask the turn.
struct TurnSignals {
  std::atomic<bool> goodbye_wanted{false};  ///< say goodbye, behind everything in the inbox, with the next run
  std::atomic<bool> credit_wanted{true};    ///< a batch waits for a credit: who returns one rings
};

/// One pass of the engine: drain the inbox, exchange frames, agree, hand batches to lanes, step inline batches. Never
/// waits for a peer. All state here belongs to the baton's holder; every function is its own unless it says otherwise.
class Turn {
 public:
  struct Parts {
    AgreementConfig config;
    std::vector<std::unique_ptr<ControlLink>> links;  ///< by rank: of `control_peers`
    std::vector<int> peers;                           ///< `control_peers`
    int upstream;                                     ///< `control_upstream`
    std::optional<RelayConfig> relay;                 ///< of a host's leader in the tree; its first child is this rank
    Heartbeats heartbeats;                            ///< of its edges to other hosts
    Inbox& inbox;
    Lanes& lanes;
    Teams& teams;
    const Executor& executor;
    TurnObserver& observer;
    TurnSignals& signals;
    const Abort& abort;
    Recorder& recorder;
    Answers& answers;
    Timeline& timeline;
  };
  explicit Turn(Parts parts);
  ~Turn();

  /// True if anything moved.
  bool run();
  /// Whether something came that a turn would take: the look before the baton is put down.
  bool input_waiting() const;
  /// Whether every frame for a rank that still listens has left. False: keep running turns.
  bool flushed() const { return flushed_; }
  /// The same of those that have left: they may not have read yet that they have, or that this rank has. Or they will
  /// never read again.
  bool flushed_to_leavers() const { return flushed_to_leavers_; }
  /// After the abort was raised: whether peers have been sent the reason.
  bool told_peers() const { return told_peers_; }
  /// Whether operations are in agreement.
  bool expecting() const { return oldest_ != nullptr; }
  /// Asks for error verdicts for what is in no batch yet and was submitted longer ago than its limit.
  void expire(SteadyClock::time_point now);
  /// Whether this rank passes on nothing that others still need: a leader of the tree stays until all below have left.
  bool needed_by_none() const { return !relay_ || relay_->all_left(); }
  /// Says goodbye for all below that have not left.
  void dismiss_below();
  /// In the tree: what has been held since the last call, and nothing has moved, goes up, so that rank 0 knows who is
  /// missing.
  void release_held();
  /// In the tree: shows leaders of other hosts that this rank lives, and returns those that have not for too long.
  std::vector<int> look_for_silence(SteadyClock::time_point now);
  /// After the abort was raised: fails everything that no lane holds. `run` does so too.
  bool fail_all(const Status& why);
  /// On rank 0: what waits for ranks that have not submitted it. Elsewhere nothing.
  std::vector<Stalled> stalled(SteadyClock::time_point now);
  /// On rank 0: asks ranks what they are doing.
  void ask(std::span<const int> ranks, const Ask& ask);
  /// Tells rank 0 of a batch that has run here for long.
  void tell_late(const LateBatch& batch);

 private:
  bool take_inbox();
  void take(const InboxItem& item);
  void submit(Operation& operation);
  void abandon(Operation& operation);
  bool report_credits();
  bool exchange_as_rank_zero(bool credits);
  bool exchange_with_upstream();
  bool receive_all(int rank);
  Status dispatch(int rank, const Frame& frame);
  Status dispatch_report(int rank, std::byte kind, std::span<const std::byte> body);
  Status dispatch_timeline(int rank, std::byte kind, std::span<const std::byte> body);
  bool send_answers();
  bool send_timeline();
  // turn_tree.cc: a leader's part.
  bool exchange_as_leader(bool moved);
  Status pass_up();
  void pass_down();
  Status dispatch_in_tree(int rank, std::byte kind, std::span<const std::byte> body);
  int next_hop(int rank) const;
  void route(int rank, std::span<const std::byte> frame, std::byte kind);
  Status dispatch_routed(int rank, std::span<const std::byte> body);
  bool passes_on(int rank) const;
  void link_lost(int rank, const Status& how);
  void send(int rank, std::vector<std::byte> frame, std::byte kind, Urgency urgency);
  void flush();
  void act();
  void start_batch(const BatchEvent& event);
  void tell_peers(const Status& why);
  void append(TensorPart& tensor);
  void unlink(TensorPart& tensor);

  Parts parts_;
  Participant participant_;
  std::optional<Arbiter> arbiter_;  ///< rank 0's
  std::optional<Relay> relay_;      ///< of a leader in the tree
  std::vector<int> child_of_;       ///< by rank: its number as a child of the relay, or -1
  std::vector<InboxItem> taken_;
  std::vector<Request> requests_;
  std::vector<char> lost_;        ///< by rank: its link was reported, or it needs nothing any more
  std::vector<char> left_;        ///< by rank: it has said goodbye
  uint64_t passed_up_ = 0;        ///< relayed frames
  uint64_t passed_before_ = 0;    ///< of the last `release_held`
  TensorPart* oldest_ = nullptr;  ///< tensors in agreement, in order of submission
  TensorPart* newest_ = nullptr;
  bool said_goodbye_ = false;
  bool dismissed_ = false;  ///< all below
  bool told_peers_ = false;
  bool urgent_ = false;  ///< the next frame to rank 0 holds more than proposals
  bool unsent_ = false;  ///< some link has something to flush
  bool flushed_ = true;
  bool flushed_to_leavers_ = true;
};

/// The configuration of this rank's relay in the control tree. The first child is the rank itself, then come the other
/// ranks of its host, then the hosts below. Empty if this rank leads no host or the job has no tree. Pure.
std::optional<RelayConfig> relay_config(const EpochPlan& plan, const std::vector<SetMembers>& sets);

}  // namespace rueda::core
