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

/// Agreement as two pure state machines: no sockets, no threads, no clock. Every rank has a `Participant`; rank 0 has
/// an `Arbiter` besides. Frames go participant -> arbiter (proposals, credits, goodbye) and arbiter -> participant
/// (verdicts), each pair of ranks in order. Rank 0's own participant exchanges frames with its arbiter like any other.
///
///   submit ─▶ Participant ──proposal frame──▶ Arbiter: match, fuse, name row ──verdict frame──▶ Participant ─▶ events

/// A batch that this rank must run now, in this order among all batches of its sets.
struct BatchEvent {
  SetId set = kGlobalSet;  ///< the id that rank 0 gave, not this rank's number for it
  uint64_t number = 0;     ///< batch number within the set, from 0
  uint64_t stamp = 0;      ///< first of its stamps, growing over all sets
  AlgorithmChoice choice;
  Metadata metadata;              ///< shape is that of the first tensor
  std::vector<uint64_t> tickets;  ///< this rank's operations, in the verdict's order; kNoTicket: it has joined
  int contributors = 0;           ///< how many members contribute to each; 0: all
  std::vector<int64_t> counts;    ///< elements of each operation, where not all contribute
  std::vector<int64_t> rows;      ///< elements of a row of each, where besides rows are dealt out
};
/// What a rank that has joined has in the place of an operation.
inline constexpr uint64_t kNoTicket = 0;
/// These operations failed for all ranks with one sentence; the runtime stays usable.
struct ErrorEvent {
  std::vector<uint64_t> tickets;
  Status status;
};
/// `rank` has said goodbye and has its place in the order: everything agreed before ran. `rank` 0 or the own rank: the
/// epoch is over for this process. Operations that needed it come as ErrorEvents (kShutDown).
struct GoodbyeEvent {
  int rank = 0;
};
/// The set that this rank asked for under `number` exists: its batches come under `members.id`.
struct SetEvent {
  SetId number = kGlobalSet;
  SetMembers members;
};
/// All members have joined, `last` as the last of them: the set's counters are equal again.
struct JoinEvent {
  uint64_t ticket = 0;
  int last = -1;
};
/// This rank counts as having submitted an operation that it never will: it failed with groups that disagree, of which
/// this rank's own did not name it.
struct LevelEvent {
  SetId set = kGlobalSet;  ///< this rank's number for it
  std::string name;
  OpKind kind = OpKind::kAllreduce;  ///< of one without a name
};
/// A receive from any rank is one from `source` now.
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
  int upstream = 0;                         ///< through whom this rank reaches rank 0, for sentences
  uint64_t slot_bytes = kDefaultSlotBytes;  ///< as in `BatchShape`
  std::vector<std::string> hosts;           ///< by rank, for sentences
  std::vector<int> host_of;                 ///< by rank: who shares memory, for new sets; empty: all
  std::vector<SetMembers> sets;             ///< at least the global set; each rank's numbers for these are their ids
  /// Names the row of a batch. Pure. Only the arbiter calls it.
  std::function<Result<AlgorithmChoice>(const BatchShape&)> select;
};

/// How a rank has proposed so far: with an id that all know, or in full.
struct ProposalCounts {
  uint64_t by_id = 0;
  uint64_t in_full = 0;
};

/// A rank's half. Owned by the engine; used by the baton's holder.
class Participant {
 public:
  explicit Participant(const AgreementConfig& config);
  ~Participant();
  /// Takes one request, or a whole group: all have the same non-zero `group`. After `goodbye` was called or received
  /// from rank 0, every request comes back as an ErrorEvent (kShutDown).
  ///
  /// A request of kind kJoin, by itself: until all members have joined, this rank contributes nothing to the set's
  /// operations and every other request for the set comes back (kInvalidArgument).
  ///
  /// A request of kind kSend without a root, by itself: this rank receives from any other member of the set, and a
  /// SourceEvent says from whom once that is known. Receives of one name, which belong to no group, keep their order.
  void submit(std::span<const Request> requests);
  /// Asks for a process set of `ranks` (ascending, at least one) that this rank calls `number`, which it never used
  /// before. Requests for it may follow at once and wait until rank 0 has matched all members' lists. Members match by
  /// `name`, or by the list where that is empty, and by their order of asking. A name stands for one list of ranks as
  /// long as the epoch: where two differ, every operation of its sets fails (kMismatch), now and later.
  void add_set(SetId number, const std::vector<int>& ranks, const std::string& name);
  /// This rank, with no operation in flight there, uses the set no more. Operations of other members that need it fail
  /// (kMismatch).
  void remove_set(SetId number);
  /// Asks for an error verdict (kTimeout with `sentence`) for a ticket that is in no batch yet, on all ranks.
  /// Nothing happens if a batch or an error for it is already on its way.
  void abandon(uint64_t ticket, const std::string& sentence);
  /// Announces that this rank leaves, behind everything submitted so far.
  void goodbye();
  /// This rank, the lowest member of `set`, has started the batch with this number (a credit). Numbers grow.
  void started(SetId set, uint64_t number);
  /// A frame from rank 0. kPeerLost if it does not parse or breaks the protocol: the epoch is over.
  Status receive(std::span<const std::byte> frame);
  /// The epoch is over for a reason from outside: what is pending comes as one ErrorEvent, every later request too.
  void end(const Status& why);
  /// The frame to send to rank 0, everything since the last call; empty when there is nothing. What exceeds the limit
  /// of one frame comes in several: call until empty.
  std::vector<std::byte> take_frame();
  /// Whether the next frame holds what `receive` set free, operations that had waited for their set: nobody else rings
  /// for them.
  bool must_ring() const;
  /// Events in order since the last call.
  std::vector<Event> take_events();
  /// Operations submitted and in no event yet, for reports: names or "allreduce #4".
  std::vector<std::string> pending_names(size_t at_most) const;
  ProposalCounts counts() const;
  /// ` of process set "trio" (ranks 0-2)`, for sentences; empty for the set of all ranks, or one that is gone.
  std::string of_set(SetId number) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Rank 0's half: matches proposals, plans batches, spends credit. Owned by rank 0's engine; used by the baton's
/// holder.
class Arbiter {
 public:
  explicit Arbiter(const AgreementConfig& config);
  ~Arbiter();
  /// A frame from `rank` (0 included). kPeerLost, naming the rank, if it does not parse or breaks the protocol.
  Status receive(int rank, std::span<const std::byte> frame);
  /// A relayed frame from rank 0's own relay, where `relayed` is set: the proposals of many ranks as one.
  Status receive_relayed(std::span<const std::byte> frame);
  /// The addressed frame for rank 0's own relay, as `take_frame`.
  std::vector<std::byte> take_addressed();
  /// Plans what can be planned now: call after every receive was taken.
  void plan();
  /// The frame to send to `rank`; empty when there is nothing. Call until empty, as above.
  std::vector<std::byte> take_frame(int rank);
  /// Whether a credit for some set would let a batch go: who holds one should ring.
  bool out_of_credit() const;
  /// What some members have proposed and others not. Ages count from the first call that saw the operation so, those of
  /// joins from the first that saw nothing agreed since the one before; `now` never goes back.
  std::vector<Stalled> stalled(SteadyClock::time_point now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
