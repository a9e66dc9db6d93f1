#pragma once
#include <cstddef>
#include <memory>

#include "runtime/engine/engine.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/store/plan.h"

namespace rueda::core {

/// Starts the engine of a worker that waits outside of a running job. It meets nobody, and takes no operations: its
/// sentence says why, and so do its `sets` process sets. Its flight record is of plan 0. Returns the errors of
/// `start_engine`.
Result<std::shared_ptr<Engine>> lone_engine(const Identity& identity, int64_t worker, size_t sets,
                                            std::unique_ptr<DumpSource> dumps);

/// Returns the ranks and hosts of a plan, as far as they are known before it is formed; `worker` is in it. Pure.
EpochPlan forecast_of(const Plan& plan, int64_t worker);

}  // namespace rueda::core
