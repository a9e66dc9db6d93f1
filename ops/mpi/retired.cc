// Frees a pair of communicators once no message can be under way on it any more.
//
//   fabric 1 ends ─▶ retired ─ fabric 2 joins: 1 ─ fabric 3 joins: 2 ─▶ received what is left, freed
//
// Every rank of fabric 3 has left fabric 2, and to join that it had left fabric 1 before; so its last messages are
// here. All ranks count the same joins and free the same communicators, which MPI asks of them: MPI_Comm_free is
// collective.
#include "ops/mpi/retired.h"

#include <cstddef>

namespace rueda::mpi {
namespace {

/// Fabrics of the same ranks that have to join after one before its communicators go.
constexpr int kJoinedAfter = 2;

/// Receives what no receive waits for any more, then frees the communicator: a message left behind would stay in the
/// library's memory for ever.
void drain_and_free(MPI_Comm comm) {
  std::vector<std::byte> unwanted;
  for (int there = 1; there != 0;) {
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status) != MPI_SUCCESS || there == 0) break;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    unwanted.resize(static_cast<size_t>(bytes));
    MPI_Recv(unwanted.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&comm);
}

bool same_ranks(MPI_Comm a, MPI_Comm b) {
  int result = MPI_UNEQUAL;
  return MPI_Comm_compare(a, b, &result) == MPI_SUCCESS && (result == MPI_IDENT || result == MPI_CONGRUENT);
}

}  // namespace

void Retired::free_old(MPI_Comm joined) {
  std::erase_if(retired_, [joined](Pair& pair) {
    if (!same_ranks(pair.frames, joined) || ++pair.joined_since < kJoinedAfter) return false;
    drain_and_free(pair.frames);
    drain_and_free(pair.bytes);
    return true;
  });
}

}  // namespace rueda::mpi
