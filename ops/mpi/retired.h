#pragma once
#include <mpi.h>

#include <vector>

namespace rueda::mpi {

/// The communicators of fabrics that have ended. A peer's last message may still be on its way when a rank leaves, and
/// would reach the next communicator with the number of the freed one. So they stay until two more fabrics of the same
/// ranks have come together: to join one, a rank must have left the one before. Used by the MPI thread.
class Retired {
 public:
  void add(MPI_Comm frames, MPI_Comm bytes) { retired_.push_back({frames, bytes, 0}); }
  /// The ranks of `joined` have come together: they all call this, and free the same ones.
  void free_old(MPI_Comm joined);

 private:
  struct Pair {
    MPI_Comm frames, bytes;
    int joined_since;
  };
  std::vector<Pair> retired_;
};

}  // namespace rueda::mpi
