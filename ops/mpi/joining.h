#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ops/mpi/calls.h"
#include "ops/mpi/mpi_thread.h"
#include "runtime/net/fabric.h"

namespace rueda::mpi {

/// What a rank has once all have come together. The communicators are the fabric's own.
struct Joined {
  MPI_Comm frames = MPI_COMM_NULL;
  MPI_Comm bytes = MPI_COMM_NULL;
  MPI_Comm collectives = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int local_size = 1;
  int world_size = 1;
  std::string offer;  ///< rank 0's
};

/// One rank's way into a fabric, on the MPI thread: a communicator of the ranks asked for, three copies of it, and what
/// rank 0 offers. All of it but the choice of some ranks waits with a deadline.
class Joining {
 public:
  Joining(MpiThread& thread, core::FabricRequest request, std::optional<MPI_Comm> given, Deadline deadline)
      : thread_(thread), request_(std::move(request)), given_(given), deadline_(deadline) {}
  Status run();
  const Joined& joined() const { return joined_; }

 private:
  class Calm;
  Status choose_ranks(MPI_Comm from, MPI_Comm& chosen);
  Status check_ranks(int rank, int size) const;
  Status copy(MPI_Comm from);
  Status exchange_hosts();
  Status learn_offer();
  Status wait(MPI_Request& request);

  MpiThread& thread_;
  const core::FabricRequest request_;
  const std::optional<MPI_Comm> given_;
  const Deadline deadline_;
  Joined joined_;
  // Buffers of what may still be running after the deadline: the thread keeps this object for ever then.
  std::vector<uint64_t> hosts_;
  uint64_t host_ = 0;
  std::string offered_;
};

}  // namespace rueda::mpi
