#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// What each member sends to each other in a batch that exchanges rows. Only a sender knows how many rows it has, and
/// rank 0 never hears of it: the counts travel ahead of the rows. A receiver asks for memory once it has the counts of
/// all.
///
///   counts_to(m), outgoing(m) ─▶ m         learn(sender, counts) of all ─▶ place() ─▶ incoming(sender)
///
/// Members are named by their index in the team; what arrives lies in the order of ranks. Used by the lane thread;
/// lives as long as the batch; borrows the call.
class Exchange {
 public:
  /// Bytes of a tensor. `data` is null if the receiver drops them.
  struct Stretch {
    std::byte* data;
    size_t bytes;
  };
  using Stretches = std::vector<Stretch>;

  explicit Exchange(const Call& call);

  int index() const { return team_.index; }
  int size() const { return team_.size(); }
  size_t tensors() const { return call_.slices.size(); }
  bool sends(int member) const;
  bool receives(int member) const;
  /// Whether all receivers get the same elements of a sender.
  bool same_for_all() const;

  size_t row_bytes(size_t tensor) const { return static_cast<size_t>(call_.slices[tensor].row) * element_; }
  /// Bytes of so many rows of each tensor.
  size_t bytes_of(std::span<const int64_t> counts) const;
  /// Rows of each own tensor that go to `member`.
  std::vector<int64_t> counts_to(int member) const;
  /// Where those rows begin.
  std::vector<const std::byte*> addresses_to(int member) const;
  /// Those rows, one tensor after the other; to be read only.
  Stretches outgoing(int member) const;

  /// Notes how many rows of each tensor `from` sends this member. Returns kPeerLost if a count is beyond any tensor's
  /// limit: the stream is broken.
  Status learn(int from, std::span<const int64_t> counts);
  /// Whether nothing has to be told: all members have agreed on the rows of all tensors. Then `learn_same` notes them.
  bool knows_all() const;
  Status learn_same();
  /// Whether `place` copies what this member sends itself, which on a device the host cannot.
  enum class OwnRows { kCopy, kLeave };
  /// Asks the caller's `Arrivals` for memory and copies what this member sends itself. Called once, after the counts of
  /// all senders are learnt.
  void place(OwnRows own_rows = OwnRows::kCopy);
  /// The destinations of what `from` sends, in the order in which it sends. After `place`.
  Stretches incoming(int from) const;
  /// The memory for the rows of all members of one tensor; null if they are dropped. After `place`.
  std::byte* arriving(size_t tensor) const { return arriving_[at(by_rank_.front(), tensor)]; }

 private:
  struct Part {
    int64_t begin;
    int64_t rows;
  };
  Part part_for(const Slice& slice, int member) const;
  size_t at(int from, size_t tensor) const { return static_cast<size_t>(from) * tensors() + tensor; }

  const Call& call_;
  const Team& team_;
  size_t element_;
  std::vector<int> by_rank_;          ///< members in the order of ranks
  std::vector<size_t> position_of_;   ///< a member's position in that order
  std::vector<int64_t> counts_;       ///< rows that each member sends this one of each tensor
  std::vector<std::byte*> arriving_;  ///< by member and tensor: the destination; null if dropped
};

}  // namespace rueda::core
