#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/request.h"

namespace rueda::core {

/// Agreement as two pure state machines: no sockets, no threads, no clock. Every rank has a `Participant`; rank 0 has
/// an `Arbiter` besides. Frames go participant -> arbiter (proposals, credits, goodbye) and arbiter -> participant
/// (verdicts), each pair of ranks in order. Rank 0's own participant exchanges frames with its arbiter like any other.
///
///   submit ─▶ Participant ──proposal frame──▶ Arbiter: match, fuse, name row ──verdict frame──▶ Participant ─▶ events

/// A batch that this rank must run now, in this order among all batches of its sets.
struct BatchEvent {
  SetId set = kGlobalSet;
  uint64_t number = 0;  ///< batch number within the set, from 0
  uint64_t stamp = 0;   ///< first of its stamps, growing over all sets
  RowChoice choice;
  Metadata metadata;              ///< shape is that of the first tensor
  std::vector<uint64_t> tickets;  ///< this rank's operations, in the verdict's order
};
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
using Event = std::variant<BatchEvent, ErrorEvent, GoodbyeEvent>;

/// A process set as agreement sees it. Set 0 is made at construction from all ranks.
struct SetMembers {
  SetId id = kGlobalSet;
  std::vector<int> ranks;   ///< ranks of the epoch in canonical order
  std::vector<int> groups;  ///< the bracket, for `Team`
  bool one_host = true;
  std::vector<int> hosts;  ///< as in `Team`
};

struct AgreementConfig {
  uint64_t epoch = 0;
  int rank = 0;
  int size = 1;
  uint64_t fusion_threshold_bytes = 64u << 20;  ///< 0: no fusion
  uint64_t cache_capacity = 65536;              ///< ids at rest; 0: none
  bool deterministic = false;
  std::vector<std::string> hosts;  ///< by rank, for sentences
  std::vector<SetMembers> sets;    ///< at least the global set
  /// Names the row of a batch. Pure. Only the arbiter calls it.
  std::function<Result<RowChoice>(const BatchShape&)> select;
};

/// A rank's half. Owned by the engine; used by the baton's holder.
class Participant {
 public:
  explicit Participant(const AgreementConfig& config);
  ~Participant();
  /// Takes one request, or a whole group: all have the same non-zero `group`. After `goodbye` was called or received
  /// from rank 0, every request comes back as an ErrorEvent (kShutDown).
  void submit(std::span<const Request> requests);
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
  /// Events in order since the last call.
  std::vector<Event> take_events();
  /// Operations submitted and in no event yet, for reports: names or "allreduce #4".
  std::vector<std::string> pending_names(size_t at_most) const;

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
  /// Plans what can be planned now: call after every receive was taken.
  void plan();
  /// The frame to send to `rank`; empty when there is nothing. Call until empty, as above.
  std::vector<std::byte> take_frame(int rank);
  /// Whether a credit for some set would let a batch go: who holds one should ring.
  bool out_of_credit() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
