// The queue between lane orders and MPI's non-blocking collectives.
//
//   waiting ─start─▶ running (MPI_Ibcast, MPI_Iallreduce) ─MPI_Test, front first─▶ ended: a count
//
// MPI matches collectives by the order in which they start on a communicator, and every rank starts the same ones in
// the same order. So all that waits is started at once, whatever still runs, and ends are counted in order: the count
// alone says which ones are through.
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
  // Only the front is tested. The call moves the later ones on as well, which peers may be waiting for.
  return {};
}

}  // namespace rueda::mpi
