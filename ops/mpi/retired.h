#pragma once
#include <mpi.h>

#include <vector>

namespace rueda::mpi {

/// The communicators of fabrics that have ended. What a peer sent last may still be on its way when a rank leaves, and
/// would reach whoever is given the number of a communicator that was freed. So they stay until two more fabrics of the
/// same ranks have come together, each of which needs all of them to have left the one before. On the MPI thread.
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
