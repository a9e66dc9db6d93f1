#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/cuda/nccl_board.h"

namespace rueda::test {

/// One operation as a rank has called it. Addresses are the host's.
struct NcclOperation {
  enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kReceive };
  Kind kind;
  const std::byte* in;
  std::byte* out;
  size_t count;  ///< as NCCL counts: of an all-gather this rank's, of a reduce-scatter each rank's
  cuda::NcclType type;
  cuda::NcclOp op = cuda::NcclOp::kSum;
  double scale = 1.0;       ///< each input is multiplied by it
  int peer = 0;             ///< or the root
  bool registered = false;  ///< its memory is
};

size_t size_of(cuda::NcclType type);

/// The operations of one group on one communicator, as one kernel: all messages move at once, in order between two
/// ranks. Returns false if `stop` was set before all had come, or the ranks do not agree, which `faults` tells.
bool run_nccl_kernel(Board& board, int ranks, int rank, const std::vector<NcclOperation>& group,
                     const std::atomic<bool>& stop, NcclFaults& faults);

}  // namespace rueda::test
