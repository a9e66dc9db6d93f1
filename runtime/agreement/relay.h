#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/agreement/set_members.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// What a relay is told when it is built.
struct RelayConfig {
  /// A sender of frames: a rank of this host, or the relay of a host below.
  struct Child {
    enum class Kind { kRank, kRelay } kind = Kind::kRank;
    std::vector<int> ranks;  ///< all ranks behind it, ascending
  };
  uint64_t epoch = 0;
  int size = 1;  ///< of the job
  std::vector<Child> children;
  std::vector<SetMembers> sets;  ///< those that exist at the start
};

/// A host leader's part in agreement. It merges what the ranks below propose into one stream upward, and hands what
/// rank 0 decides down to the ranks that it is for. Pure: no sockets, threads or clock. Owned by the `Turn` of the
/// leader's engine; used by the holder of the baton only. No function blocks.
///
///   children ─proposal frames, relayed frames─▶ from_below ─▶ merge ─▶ take_up ─relayed frame─▶ parent
///   children ◀─verdict frames, addressed frames─ take_down ◀─ from_above ◀─addressed frame── parent
///
/// A proposal by id is held until every member below has made it, and then leaves as one for all of them. What cannot
/// be merged (names, other metadata, groups, credits, sets, joins, goodbyes) leaves at once for its rank, behind what
/// is held of that rank, and a rank that proposes the same occurrence later is not held either. So each rank's records
/// arrive in their order, and rank 0 counts occurrences as if it had heard every rank itself.
///
///   relayed frame    epoch { ranks bytes(records) }      ranks: 0, for all members below, or as in messages.h
///   addressed frame  epoch { audience bytes(verdict) }   audience: 0 all; 2 * set + 1; 2 * rank + 2
class Relay {
 public:
  explicit Relay(const RelayConfig& config);
  ~Relay();
  /// Takes a frame from child number `child`. Returns kPeerLost, with a rank behind the child, if it does not parse:
  /// the epoch is over.
  Status from_below(size_t child, std::span<const std::byte> frame);
  /// Returns the frame for the parent; empty if there is nothing, or if the last one has not been acknowledged. What is
  /// ready meanwhile leaves in the next frame.
  std::vector<std::byte> take_up();
  /// The parent has taken the last frame.
  void acknowledged();
  /// Takes a frame from the parent. Returns kPeerLost, with rank 0, if it does not parse: the epoch is over.
  Status from_above(std::span<const std::byte> frame);
  /// Returns the next frame for a child; empty if there is none. Call until empty.
  std::vector<std::byte> take_down(size_t child);
  /// Sends up what is held, rank by rank. Call it after a while without progress, so that rank 0 knows which ranks are
  /// missing.
  void release();
  /// Number of proposals that wait for other ranks below.
  size_t held() const;
  /// Says goodbye for the ranks behind this child that have not left, because they can no longer be reached.
  void dismiss(size_t child);
  /// Whether no rank below needs this relay any more: all have left, or rank 0 has.
  bool all_left() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
