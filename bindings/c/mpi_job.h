#pragma once
#include <memory>

#include "bindings/c/rueda.h"
#include "runtime/base/environment.h"
#include "runtime/base/settings.h"
#include "runtime/net/fabric.h"
#include "runtime/rendezvous/identity.h"

namespace rueda::core {

/// Returns whether the caller or a setting asks MPI for the ranks of the job.
bool asks_for_mpi(const rueda_init_options& options, const Settings& settings);

/// Returns whether MPI must provide the ranks although neither asked: mpirun started processes on several hosts, and
/// nothing else says how they can meet. Pure.
bool needs_mpi(const rueda_init_options& options, const Identity& identity, const Environment& environment);

/// Joins the ranks that MPI knows and writes this rank, and rank 0's name and key of the job, into `identity`. Blocks,
/// at most until `deadline`. Returns kInvalidArgument if the options name ranks or a store too, or if the environment
/// contradicts MPI because launcher and MPI do not know each other. Other errors are those of `FabricSource::join`.
Result<std::shared_ptr<Fabric>> join_mpi(const rueda_init_options& options, const Settings& settings,
                                         FabricSource& source, const Environment& environment, Identity& identity,
                                         Deadline deadline);

}  // namespace rueda::core
