#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/nccl_abi.h"

namespace rueda::test {

inline constexpr int kMostNcclRanks = 8;
inline constexpr size_t kBoxBytes = 32 << 10;

/// What one rank has for another: one chunk at a time.
struct Box {
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> taken{0};
  uint64_t length;      ///< of the whole message
  uint64_t registered;  ///< 1: its memory is registered
  std::array<std::byte, kBoxBytes> chunk;
};

struct BoardMember {
  std::atomic<uint32_t> joined{0};
  std::atomic<uint32_t> finalized{0};
  std::array<char, 16> gpu;
};

/// Memory that the ranks of one communicator share. Zeros at first.
struct Board {
  std::array<BoardMember, kMostNcclRanks> members;
  std::array<std::array<Box, kMostNcclRanks>, kMostNcclRanks> boxes;  ///< [from][to]
};

/// Makes a board that other processes find by the id as long as this one lives and has not called `forget_board`.
cuda::NcclId make_board();
/// The board of the id; null if the process that made it is gone. Threads of one process share one mapping, so that a
/// race shows.
std::shared_ptr<Board> open_board(const cuda::NcclId& id);
/// All have joined: nobody looks for the board any more.
void forget_board(const cuda::NcclId& id);

/// What the two sides of a message do not agree on.
struct NcclFaults {
  std::atomic<bool> length{false};
  std::atomic<bool> mixed{false};  ///< one side's memory is registered
  bool any() const { return length.load() || mixed.load(); }
};

/// One message between this rank and another, moved chunk by chunk.
class Transfer {
 public:
  static Transfer send(Box& box, const std::byte* from, size_t bytes, bool registered) {
    return {box, const_cast<std::byte*>(from), bytes, true, registered};
  }
  static Transfer receive(Box& box, std::byte* to, size_t bytes, bool registered) {
    return {box, to, bytes, false, registered};
  }
  const Box* box() const { return box_; }
  bool sends() const { return sends_; }
  bool done() const { return at_ == bytes_; }
  /// Moves one chunk if the other side lets it; false if nothing moved.
  bool step(NcclFaults& faults);

 private:
  Transfer(Box& box, std::byte* memory, size_t bytes, bool sends, bool registered)
      : box_(&box), memory_(memory), bytes_(bytes), sends_(sends), registered_(registered) {}
  Box* box_;
  std::byte* memory_;
  size_t bytes_;
  size_t at_ = 0;
  bool sends_;
  bool registered_;
};

}  // namespace rueda::test
