#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/inbox.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/teams.h"
#include "runtime/net/control_link.h"

namespace rueda::core {

/// What a turn tells the engine. Called by the baton's holder.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void member_finished(Member& member, const Status& status) = 0;
  /// `rank` said goodbye and has its place in the order.
  virtual void rank_left(int rank) = 0;
  /// The link to `rank` closed or broke without a goodbye: evidence, not yet a verdict.
  virtual void link_lost(int rank, const Status& how) = 0;
  /// The epoch is over: a verdict came from rank 0, or a frame broke the protocol.
  virtual void epoch_over(const Status& why) = 0;
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
    std::vector<std::unique_ptr<ControlLink>> links;  ///< by rank: rank 0's to everybody, the others' to rank 0
    Inbox& inbox;
    Lanes& lanes;
    Teams& teams;
    const Executor& executor;
    TurnObserver& observer;
    TurnSignals& signals;
    const Abort& abort;
    Recorder& recorder;
  };
  explicit Turn(Parts parts);
  ~Turn();

  /// True if anything moved.
  bool run();
  /// Whether something came that a turn would take: the look before the baton is put down.
  bool input_waiting() const;
  /// Whether every frame for a rank that still listens has left. False: keep running turns.
  bool flushed() const { return flushed_; }
  /// Whether operations are in agreement.
  bool expecting() const { return oldest_ != nullptr; }
  /// Asks for error verdicts for what was submitted before `before` and is in no batch yet.
  void expire(SteadyClock::time_point before, std::chrono::nanoseconds limit);
  /// After the abort was raised: fails everything that no lane holds. `run` does so too.
  bool fail_all(const Status& why);

 private:
  bool take_inbox();
  void take(const InboxItem& item);
  void submit(Operation& operation);
  void abandon(Operation& operation);
  bool report_credits();
  bool exchange_as_rank_zero(bool credits);
  bool exchange_with_rank_zero();
  bool receive_all(int rank);
  Status dispatch(int rank, const Frame& frame);
  void send(int rank, std::vector<std::byte> frame, std::byte kind, Urgency urgency);
  void flush();
  void act();
  void start_batch(const BatchEvent& event);
  void tell_peers(const Status& why);
  void append(Member& member);
  void unlink(Member& member);

  Parts parts_;
  Participant participant_;
  std::optional<Arbiter> arbiter_;  ///< rank 0's
  std::vector<InboxItem> taken_;
  std::vector<Request> requests_;
  std::vector<char> lost_;    ///< by rank: its link was reported
  Member* oldest_ = nullptr;  ///< members in agreement, in order of submission
  Member* newest_ = nullptr;
  bool said_goodbye_ = false;
  bool told_peers_ = false;
  bool urgent_ = false;  ///< the next frame to rank 0 holds more than proposals
  bool unsent_ = false;  ///< some link has something to flush
  bool flushed_ = true;
};

}  // namespace rueda::core
