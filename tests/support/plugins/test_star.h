#pragma once
#include "ops/algorithm.h"
#include "runtime/base/plugin_abi.h"

namespace rueda::test {

/// An all-reduce of f32 sums for host and fake memory: everybody sends to the first member, which adds in the team's
/// order and sends the sum back. `host` lives as long as the algorithm.
core::Algorithm star_algorithm(const rueda_host* host);

}  // namespace rueda::test
