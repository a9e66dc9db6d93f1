#include "ops/mpi/collectives.h"

#include <limits>

namespace rueda::mpi {

Status CollectiveQueue::start(const Order& order) {
  if (order.count > std::numeric_limits<int>::max()) {
    return {Code::kInvalidArgument, "a collective of " + std::to_string(order.count) + " elements; MPI counts in int"};
  }
  const int count = static_cast<int>(order.count);
  MPI_Request& request = running_.emplace_back(MPI_REQUEST_NULL);
  if (order.root >= 0) {
    return checked(MPI_Ibcast(order.data, count, MPI_BYTE, order.root, comm_, &request), "MPI_Ibcast");
  }
  const Reductions::Choice choice = reductions_.choose(order.dtype, order.op);
  return checked(
      MPI_Iallreduce(MPI_IN_PLACE, order.data, count * choice.per_element, choice.type, choice.op, comm_, &request),
      "MPI_Iallreduce");
}

Status CollectiveQueue::move(uint64_t& ended) {
  while (!waiting_.empty()) {
    RUEDA_RETURN_IF_ERROR(start(waiting_.front()));
    waiting_.pop_front();
  }
  while (!running_.empty()) {
    int done = 0;
    RUEDA_RETURN_IF_ERROR(checked(MPI_Test(&running_.front(), &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done == 0) break;
    running_.pop_front();
    ++ended;
  }
  // One that is not the first may be waiting for us all the same.
  return {};
}

}  // namespace rueda::mpi
