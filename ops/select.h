#pragma once
#include <span>
#include <string>

#include "ops/algorithm.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// Why `row` may not serve the shape; empty if it may. Looks at kind, canonical order and the row's own `fits`. Pure.
std::string obstacle(const Algorithm& row, const BatchShape& shape, const Settings& settings);

/// Names the row for a batch and its plan: the forced one of the settings, else the fastest known that may serve it. A
/// set of one rank always takes its `local` row: nothing moves that a forced row could move. Adasum has rows of its
/// own, which cannot be forced. Pure.
///
/// kInvalidArgument: the shape cannot be reduced at all (an average of bool, an operator without kernels), or the
/// forced row cannot serve it; the sentence names the row and why. kUnsupported: no row of the table can.
Result<AlgorithmChoice> select_algorithm(std::span<const Algorithm> rows, const Settings& settings,
                                         const BatchShape& shape);

/// For init: kInvalidArgument if the settings force a row that the table does not have; names variable, value and rows.
Status check_forced_algorithms(std::span<const Algorithm> rows, const Settings& settings);

}  // namespace rueda::core
