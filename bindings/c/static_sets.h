#pragma once
#include <string>
#include <vector>

#include "bindings/c/rueda.h"
#include "runtime/engine/engine.h"

namespace rueda::core {

/// A process set that init's caller gave, among the ranks of the epoch.
struct StaticSet {
  std::vector<int> ranks;
  std::string lost = {};  ///< why it can no longer be; empty if it is
};

/// Returns the sets of `options` in their order. Checks them against the job's size. Returns kInvalidArgument if one
/// cannot be a set.
Result<std::vector<StaticSet>> static_sets(const rueda_init_options& options, int size);

/// Text that is equal for equal sets, whatever the order of their ranks: "ranks 0-2; ranks 1-2".
std::string in_words(std::vector<StaticSet> sets);

/// Adds the sets to an engine that has none: they get the numbers 1, 2, ...
Status add_static_sets(Engine& engine, const std::vector<StaticSet>& sets);

}  // namespace rueda::core
