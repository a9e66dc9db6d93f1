#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/agreement/request.h"
#include "runtime/agreement/set_members.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/diagnosis/stall.h"

namespace rueda::core {

/// Agreement as two pure state machines: no sockets, no threads, no clock. Every rank has a `Participant`; rank 0 also
/// has an `Arbiter`. Frames go participant -> arbiter (proposals, credits, goodbye) and arbiter -> participant
/// (verdicts), each pair of ranks in order. Rank 0's own participant exchanges frames with its arbiter like any other.
/// The README.md beside this file tells the whole way.
///
///   submit ─▶ Participant ──proposal──▶ Arbiter: match, fuse, choose the algorithm ──verdict──▶ Participant ─▶ events

/// A batch that this rank must run now, in this order among all batches of its sets.
struct BatchEvent {
  SetId set = kGlobalSet;  ///< the id that rank 0 gave, not this rank's number for it
  uint64_t number = 0;     ///< batch number within the set, from 0
  uint64_t stamp = 0;      ///< first of its stamps, growing over all sets
  AlgorithmChoice choice;
  uint64_t key = 0;   ///< the same on all ranks: id of its only operation's key; 0 if it has several, or if not all
                      ///< members contribute
  Metadata metadata;  ///< shape is that of the first tensor
  std::vector<uint64_t> tickets;  ///< this rank's operations, in the verdict's order; kNoTicket if it has joined
  int contributors = 0;           ///< number of members that contribute to each operation; 0: all
  std::vector<int64_t> counts;    ///< elements of each operation; empty if all members contribute
  std::vector<int64_t> rows;      ///< elements of a row of each operation; only in a reduce-scatter with `counts`
};
/// The ticket of an operation that this rank has not submitted, because it has joined.
inline constexpr uint64_t kNoTicket = 0;
/// These operations failed for all ranks with one sentence; the runtime stays usable.
struct ErrorEvent {
  std::vector<uint64_t> tickets;
  Status status;
};
/// `rank` has left, at this point of the order: everything agreed before it runs. If `rank` is 0 or this rank, the
/// epoch is over for this process. Operations that need the rank come as ErrorEvents (kShutDown).
struct GoodbyeEvent {
  int rank = 0;
};
/// The set that this rank asked for under `number` exists. Its batches carry `members.id`.
struct SetEvent {
  SetId number = kGlobalSet;
  SetMembers members;
};
/// All members have joined, `last` as the last one. The set's counters are equal again.
struct JoinEvent {
  uint64_t ticket = 0;
  int last = -1;
};
/// Rank 0 counts an operation as submitted by this rank, which never will: it failed because the groups of the ranks
/// disagree, and this rank's own group does not name it.
struct LevelEvent {
  SetId set = kGlobalSet;  ///< this rank's number for it
  std::string name;
  OpKind kind = OpKind::kAllreduce;  ///< of an operation without a name
};
/// The sender of a receive from any rank is known: it is a receive from `source` now.
struct SourceEvent {
  uint64_t ticket = 0;
  int source = -1;
};
using Event = std::variant<BatchEvent, ErrorEvent, GoodbyeEvent, SetEvent, JoinEvent, LevelEvent, SourceEvent>;

struct AgreementConfig {
  uint64_t epoch = 0;
  int rank = 0;
  int size = 1;
  uint64_t fusion_threshold_bytes = 64u << 20;  ///< 0: no fusion
  uint64_t cache_capacity = 65536;              ///< ids at rest; 0: none
  bool deterministic = false;
  bool relayed = false;                     ///< frames travel through relays, in a tree: see `Relay`
  int upstream = 0;                         ///< rank through which this one reaches rank 0, for sentences
  uint64_t slot_bytes = kDefaultSlotBytes;  ///< as in `BatchShape`
  RankNames names;                          ///< for sentences
  std::vector<int> host_of;                 ///< by rank: number of its host, for new sets; empty: all on one
  std::vector<SetMembers> sets;             ///< at least the global set; each rank's numbers for these are their ids
  /// Chooses the algorithm of a batch. Only the arbiter calls it. If it returns an error, the operations of the batch
  /// fail on all ranks with kInvalidArgument and its sentence.
  std::function<Result<AlgorithmChoice>(const BatchShape&)> select;
  /// Hears how long a batch took if `select` made it a trial. Only the arbiter calls it; may be empty. A report may
  /// never come, and a broken member may report what it likes, so nothing but speed may depend on it.
  std::function<void(const TrialTime&)> timed;
};

/// How often a rank has proposed so far: with an id that all members know, or in full.
struct ProposalCounts {
  uint64_t by_id = 0;
  uint64_t in_full = 0;
};

/// A rank's half. Owned by the engine's `Turn`; used by the holder of the baton only. No function blocks.
class Participant {
 public:
  explicit Participant(const AgreementConfig& config);
  ~Participant();
  /// Takes one request, or a whole group: all have the same non-zero `group`. Copies what it needs. A request that
  /// cannot be proposed comes back as an ErrorEvent: kInvalidArgument if it is malformed, its set unknown or joined;
  /// kShutDown after `goodbye` was called, or received from rank 0.
  ///
  /// A request of kind kJoin comes alone. Until all members have joined, this rank contributes nothing to the set's
  /// operations, and every other request for the set comes back (kInvalidArgument).
  ///
  /// A request of kind kSend without a root comes alone: this rank receives from any other member of the set, and a
  /// SourceEvent names the sender once it is known. Receives of one name outside groups keep their order.
  ///
  /// Returns the id of the request's key if it was proposed by that alone, so that its metadata are those that all
  /// ranks know; 0 if it was not, if it has failed already, or for a group.
  uint64_t submit(std::span<const Request> requests);
  /// Asks for a process set of `ranks` (ascending, at least one) under `number`, which this rank never used before.
  /// Requests for the set may follow at once; they wait until rank 0 has matched the lists of all members. Members
  /// match by `name`, or by the list if the name is empty, and by their order of asking. A name stands for one list of
  /// ranks as long as the epoch: if ranks give it two, every operation of its sets fails (kMismatch), now and later.
  void add_set(SetId number, const std::vector<int>& ranks, const std::string& name);
  /// Ends this rank's use of the set. It must have no operation in flight there. Operations of other members that need
  /// this rank fail (kMismatch).
  void remove_set(SetId number);
  /// Asks rank 0 to fail the operation of `ticket` on all ranks (kTimeout with `sentence`). Nothing happens if the
  /// operation is in a batch, or if a verdict on it is already on its way.
  void abandon(uint64_t ticket, const std::string& sentence);
  /// Announces that this rank leaves, after everything submitted so far.
  void goodbye();
  /// Returns a credit: this rank, the lowest member of `set`, has started the batch with this number or, on a
  /// device, finished it. Numbers grow. Nothing happens on other ranks.
  void started(SetId set, uint64_t number);
  /// Reports how long a trial (`AlgorithmChoice::trial`) of `set` took. The report travels with the
  /// next frame, which need not wake rank 0. Nothing happens on ranks other than the set's lowest.
  void timed(SetId set, const TrialTime& time);
  /// Takes a frame from rank 0. Returns kPeerLost if it does not parse or breaks the protocol: the epoch is over.
  Status receive(std::span<const std::byte> frame);
  /// Ends the epoch for a reason from outside. What is pending comes as one ErrorEvent; every later request fails with
  /// `why` too.
  void end(const Status& why);
  /// Returns the frame to send to rank 0, with everything since the last call; empty if there is nothing. What exceeds
  /// the limit of one frame comes in several, so call until empty.
  std::vector<std::byte> take_frame();
  /// Whether the next frame must wake rank 0: it holds operations that had waited for their set or their sender and
  /// that `receive` set free, so no submission rings for them.
  bool must_ring() const;
  /// Events in order since the last call.
  std::vector<Event> take_events();
  /// Swaps them into `taken`, which is cleared first: a caller that keeps it needs no new memory.
  void take_events(std::vector<Event>& taken);
  /// Operations submitted and in no event yet, for reports: names or "allreduce #4".
  std::vector<std::string> pending_names(size_t at_most) const;
  ProposalCounts counts() const;
  /// Returns ` of process set "trio" (ranks 0-2)`, for sentences; empty for the set of all ranks or a removed one.
  std::string of_set(SetId number) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Rank 0's half: matches proposals, plans batches, spends credit. Owned by the `Turn` of rank 0's engine; used by the
/// holder of the baton only. No function blocks.
class Arbiter {
 public:
  explicit Arbiter(const AgreementConfig& config);
  ~Arbiter();
  /// Takes a frame from `rank` (0 included). Returns kPeerLost, naming the rank, if it does not parse or breaks the
  /// protocol: the epoch is over.
  Status receive(int rank, std::span<const std::byte> frame);
  /// Takes a frame from rank 0's own relay, if `relayed` is set: the proposals of many ranks as one. Returns kPeerLost
  /// like `receive`.
  Status receive_relayed(std::span<const std::byte> frame);
  /// Returns the addressed frame for rank 0's own relay; empty if there is nothing. Call until empty.
  std::vector<std::byte> take_addressed();
  /// Turns what is agreed into batches, as far as the sets have credit. Call it once after all frames that have arrived
  /// were received: more proposals make fuller batches.
  void plan();
  /// Returns true once if the frames for `rank` must wake it even if it expects nothing: they hold more than batches.
  /// Call it before `take_frame`.
  bool must_ring(int rank);
  /// Returns the frame to send to `rank`; empty if there is nothing. Call until empty.
  std::vector<std::byte> take_frame(int rank);
  /// Whether a credit for some set would let a batch go. A rank that returns one should then wake rank 0.
  bool out_of_credit() const;
  /// Returns what some members have proposed and others not. The age of an operation counts from the first call that
  /// saw it so; that of a join from the first call that saw nothing decided since the call before. `now` never goes
  /// back.
  std::vector<Stalled> stalled(SteadyClock::time_point now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
