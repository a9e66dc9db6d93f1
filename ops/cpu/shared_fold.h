#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/packing.h"

namespace rueda::core {

/// The addresses of a stretch of one tensor: on every member, in the team's order, and wherever its result goes.
struct MemberTensors {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
};

/// Reduces tensors of all members where they lie: reads every member's input and writes the result to every output, in
/// one pass, whatever codec and scales. Used by the holder of a lane's token; borrows the call.
class SharedFold {
 public:
  /// `own` is the index of the own output; `hint` says how to store to the others, which other ranks will read, unless
  /// they are inputs too.
  SharedFold(const Call& call, size_t own, StoreHint hint);
  /// `count` elements that lie in one piece on each member.
  void run(const MemberTensors& tensor, int64_t count);

 private:
  StoreHint hint_of(int64_t count) const;
  void run_in_registers(int64_t count);
  void run_encoded(int64_t count);

  Packing packing_;
  ReduceTask task_;
  bool in_registers_;  ///< the kernel reads and writes the tensors themselves
  size_t own_;
  StoreHint hint_;
  size_t element_bytes_;
  std::vector<const std::byte*> in_;  ///< of the block at hand
  std::vector<std::byte*> out_;
  std::vector<std::byte> block_;  ///< one block for each member, encoded, and one for the result
};

}  // namespace rueda::core
