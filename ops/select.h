#pragma once
#include <span>
#include <string>

#include "ops/algorithm.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// Says why `algorithm` may not serve the shape; empty if it may. Looks at the kind, the canonical order, the settings
/// and the algorithm's own `fits`. Pure.
std::string obstacle(const Algorithm& algorithm, const BatchShape& shape, const Settings& settings);

/// Chooses the algorithm for a batch and plans its chunks: the algorithm that the settings force, else the fastest
/// known that may serve the batch. A set of one rank always takes its `local` algorithm: no data moves there. Adasum
/// has algorithms of its own, which the settings cannot force. Forcing shm_shared, which tensors in private memory
/// cannot take, leaves the choice for those open. Pure.
///
/// Returns kInvalidArgument if the shape cannot be reduced at all (an average of bool, an operator without kernels) or
/// the forced algorithm cannot serve it; the sentence names the algorithm and the reason. Returns kUnsupported if no
/// algorithm of the table can serve the shape.
Result<AlgorithmChoice> select_algorithm(std::span<const Algorithm> table, const Settings& settings,
                                         const BatchShape& given);

/// Whether the settings leave the algorithm of this shape open: none is named, and none of the two-level ones is forced
/// or forbidden. Pure.
bool chooses_freely(const Settings& settings, const BatchShape& shape);

/// The shape with slots no longer than RUEDA_CHUNK_BYTES allows chunks to be. Pure.
BatchShape with_chunk_limit(const BatchShape& shape, const Settings& settings);

/// Whether the settings name the algorithm for operations of this kind. Pure.
bool is_forced(const Settings& settings, OpKind kind);

/// Checks the settings at init. Returns kInvalidArgument if they force an algorithm that the table does not have; the
/// sentence names the variable, its value and the algorithms to choose from.
Status check_forced_algorithms(std::span<const Algorithm> table, const Settings& settings);

}  // namespace rueda::core
