#pragma once
#include <mpi.h>

#include "runtime/base/dtype.h"
#include "runtime/base/plugin_abi.h"

namespace rueda::mpi {

/// How MPI is told to reduce: by its own operations if they give the promised bits, else by the host's kernels as
/// operations of ours. Made and used on the MPI thread, for the life of the process.
class Reductions {
 public:
  /// `host`'s kernels are what operations of ours run.
  explicit Reductions(const rueda_host* host);

  struct Choice {
    MPI_Datatype type;
    MPI_Op op;
    int per_element;  ///< of `type` in one element
  };
  /// Before MPI is finalised, if it is at all.
  void free();
  /// For what `Collectives::allreduce` takes.
  Choice choose(core::Dtype dtype, core::ReduceOp op) const;

 private:
  static constexpr int kOps = 9;
  MPI_Datatype types_[core::kDtypeCount];
  MPI_Op ops_[kOps];
};

}  // namespace rueda::mpi
