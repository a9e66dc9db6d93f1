#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "ops/cuda/communicators.h"
#include "ops/cuda/nccl_sums.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {

/// Where this rank is among the members of a set: on which host, and at which place there.
struct HostPlace {
  int first = 0;         ///< the first member on this rank's host, by its index in the team
  int size = 1;          ///< members on this host
  int index = 0;         ///< this rank's place among them
  int slices = 1;        ///< members on the host that has fewest: so many on each host own a slice
  bool several = false;  ///< the set lies on several hosts, and some host has several members
  bool each_several() const { return several && slices > 1; }  ///< on several hosts, each with several members
  static HostPlace of(const core::Team& team);
};

/// Two blocks of the host's memory that one GPU copies to and from by itself, in one stream. Made at the first use, and
/// kept: copies of the last batch may be in the stream when the next one begins. Owned by the device lane.
class PinnedPair {
 public:
  PinnedPair() = default;
  ~PinnedPair() { free(); }
  PinnedPair(const PinnedPair&) = delete;
  PinnedPair& operator=(const PinnedPair&) = delete;
  /// Does nothing but at the first call. Returns kSystem if there is no memory.
  Status make(const core::DeviceFunctions& functions, int32_t index, size_t bytes);
  std::byte* block(int64_t number) const { return blocks_[static_cast<size_t>(number % 2)]; }
  /// Once the GPU does not use them any more.
  void free();
  /// Leaves them to the process.
  void leave() { blocks_ = {}; }

 private:
  const core::DeviceFunctions* functions_ = nullptr;
  int32_t index_ = 0;
  size_t bytes_ = 0;
  std::array<std::byte*, 2> blocks_{};
};

/// An all-reduce by NCCL inside hosts and by the host's own algorithm between them. Used by the device lane, once.
class HierarchicalBatch {
 public:
  HierarchicalBatch(const core::Call& call, const NcclSum& sum, CUstream stream, Communicators& communicators,
                    PinnedPair& pinned, core::EngineCall& host);
  /// Launches all of it; waits for what goes through the host.
  Status run();

 private:
  /// A part of a tensor in a slice of a piece.
  struct Part {
    const std::byte* in;
    std::byte* out;
    int64_t count;
    int64_t at;  ///< elements before it in the slice
  };
  int64_t count_of(int64_t piece) const;
  std::vector<Part> parts_of(int64_t piece, int slice) const;
  int64_t slice_length(int64_t piece, int slice) const;
  bool owns_slice() const { return place_.index < place_.slices; }
  Status reduce_to_owners(int64_t piece);
  Status fetch(int64_t piece);
  Status sum_between_hosts(int64_t piece);
  Status store(int64_t piece);
  Status spread(int64_t piece);
  using Each = std::function<NcclResult(const Nccl& nccl, NcclComm communicator, int owner, const Part& part)>;
  Status for_parts(int64_t piece, const Each& each);
  Status copy(void* to, const void* from, int64_t elements);

  const core::Call& call_;
  const NcclSum sum_;
  const CUstream stream_;
  Communicators& communicators_;
  PinnedPair& pinned_;
  core::EngineCall& host_;
  const CommunicatorKey key_;
  const HostPlace place_;
  const size_t element_;
  const int64_t piece_;  ///< elements of a full piece, of all slices together
  NcclOp op_ = NcclOp::kSum;
  std::array<std::shared_ptr<const core::DeviceMark>, 2> fetched_;  ///< behind the copies of the last two pieces
  std::vector<int> peers_;                                          ///< ranks that own the same slice on each host
};

}  // namespace rueda::cuda
