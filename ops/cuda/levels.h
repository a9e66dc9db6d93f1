#pragma once
#include <span>
#include <string>

#include "ops/cuda/nccl_told.h"
#include "runtime/base/settings.h"
#include "runtime/engine/executor.h"

namespace rueda::cuda {

/// Returns whether all-reduces of the set may take two levels, by rank 0's setting and the set's hosts. Pure.
bool may_take_two_levels(core::Choice hierarchical, const core::Team& team);

/// Returns whether they take them, by what the members have told. The same on all of them. Pure.
bool take_two_levels(core::Choice hierarchical, const core::Team& team, std::span<const Told> members);

/// A line for the log of a set that takes them.
std::string describe_levels(const core::Team& team);

}  // namespace rueda::cuda
