#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// Who sends what to whom in a batch that exchanges rows. Only a sender knows how many it has: its counts travel ahead
/// of its rows, so rank 0 never hears of them, and only when all have come does a receiver ask where the rows go.
///
///   counts_to(m), outgoing(m) ─▶ m         learn(sender, counts) of all ─▶ place() ─▶ incoming(sender)
///
/// Members are named by their place in the team; what arrives lies in the order of ranks. Lives as long as the batch;
/// borrows the call.
class Exchange {
 public:
  /// Bytes of a tensor; `data` null: they are dropped.
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
  /// Rows of each own tensor that go to `member`.
  std::vector<int64_t> counts_to(int member) const;
  /// Those rows, one tensor after the other; to be read only.
  Stretches outgoing(int member) const;

  /// What `from` sends this member of each tensor. kPeerLost: no tensors are like that.
  Status learn(int from, std::span<const int64_t> counts);
  /// Once all senders are learnt: asks for the places, and copies what this member sends itself.
  void place();
  /// Where what `from` sends goes, in its order. Once placed.
  Stretches incoming(int from) const;

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
  std::vector<size_t> place_of_;      ///< where a member comes in that order
  std::vector<int64_t> counts_;       ///< rows that each member sends this one of each tensor
  std::vector<std::byte*> arriving_;  ///< the same: where it goes; null: dropped
};

}  // namespace rueda::core
