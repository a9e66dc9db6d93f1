#pragma once
#include <cstdint>
#include <deque>
#include <span>

#include "ops/mpi/calls.h"
#include "ops/mpi/combine.h"

namespace rueda::mpi {

/// MPI's own non-blocking collectives on a communicator of their own, started in the order in which they come. The MPI
/// thread's own.
class CollectiveQueue {
 public:
  struct Order {
    int root = -1;  ///< of a broadcast; -1: an all-reduce
    core::Dtype dtype = core::Dtype::kU8;
    core::ReduceOp op = core::ReduceOp::kSum;
    std::byte* data = nullptr;
    int64_t count = 0;  ///< elements; of a broadcast bytes
  };
  /// `reductions` lives as long as the process.
  CollectiveQueue(MPI_Comm comm, const Reductions& reductions) : comm_(comm), reductions_(reductions) {}
  void add(const Order& order) { waiting_.push_back(order); }
  bool busy() const { return !waiting_.empty() || !running_.empty(); }
  /// Starts what waits; `ended`: how many, in order, have come through.
  Status move(uint64_t& ended);

 private:
  Status start(const Order& order);

  const MPI_Comm comm_;
  const Reductions& reductions_;
  std::deque<Order> waiting_;
  std::deque<MPI_Request> running_;
};

}  // namespace rueda::mpi
