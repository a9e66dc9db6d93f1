#pragma once
#include <memory>

#include "bindings/c/rueda.h"
#include "runtime/base/environment.h"
#include "runtime/base/settings.h"
#include "runtime/net/fabric.h"
#include "runtime/rendezvous/identity.h"

namespace rueda::core {

/// Whether the caller or a setting wants MPI to say who is in the job.
bool asks_for_mpi(const rueda_init_options& options, const Settings& settings);

/// Whether MPI has to say it though nobody asked: mpirun started processes on several hosts, and nothing else tells
/// where they meet. Pure.
bool needs_mpi(const rueda_init_options& options, const Identity& identity, const Environment& environment);

/// Joins the ranks that MPI knows and writes into `identity` who this one is, and the name and key of the job, which
/// are rank 0's. Blocks, at most until `deadline`. kInvalidArgument: the options say it as well, or the environment
/// says something else than MPI, as where a launcher and MPI do not know each other; names both. Else as
/// `FabricSource::join`.
Result<std::shared_ptr<Fabric>> join_mpi(const rueda_init_options& options, const Settings& settings,
                                         FabricSource& source, const Environment& environment, Identity& identity,
                                         Deadline deadline);

}  // namespace rueda::core
