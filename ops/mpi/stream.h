#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ops/mpi/calls.h"

namespace rueda::mpi {

/// Bytes between this rank and one other on one lane, as MPI messages in order: each span that is sent is a message, or
/// several if it is very long. Spans that are received need not be cut in the same way: a message that fits the
/// first of them goes straight into it, another one through memory of ours. The MPI thread's own.
class Stream {
 public:
  Stream(MPI_Comm comm, int rank, int tag) : comm_(comm), rank_(rank), tag_(tag) {}

  void send(std::span<const std::byte> bytes) { to_send_.push_back(bytes); }
  void receive(std::span<std::byte> bytes) { to_fill_.push_back(bytes); }

  /// What has come through in one look.
  struct Progress {
    uint64_t sent = 0;
    uint64_t received = 0;
    bool started = false;  ///< a transfer has begun
  };
  /// Not ok: MPI has failed.
  Status move(Progress& progress);
  /// Bytes are queued or on their way.
  bool busy() const { return !to_send_.empty() || !to_fill_.empty() || in_transfer(); }
  /// MPI holds memory of the caller's.
  bool in_transfer() const { return !sending_.empty() || !arriving_.empty(); }

 private:
  struct Transfer {
    MPI_Request request = MPI_REQUEST_NULL;
    size_t bytes = 0;
  };
  Status start_sends(Progress& progress);
  Status end_transfers(std::deque<Transfer>& transfers, uint64_t& bytes);
  Status start_receives(Progress& progress);
  Status look_for_message();
  Status receive_spill();
  Status end_spill(Progress& progress);
  void deliver_spill(Progress& progress);

  const MPI_Comm comm_;
  const int rank_;
  const int tag_;
  std::deque<std::span<const std::byte>> to_send_;
  std::deque<Transfer> sending_;
  std::deque<std::span<std::byte>> to_fill_;
  std::deque<Transfer> arriving_;
  MPI_Message message_ = MPI_MESSAGE_NULL;  ///< the next one, found and not yet received
  size_t message_bytes_ = 0;
  std::vector<std::byte> spill_;  ///< a message longer than the first span
  size_t delivered_ = 0;          ///< of it
  MPI_Request spill_request_ = MPI_REQUEST_NULL;
};

}  // namespace rueda::mpi
